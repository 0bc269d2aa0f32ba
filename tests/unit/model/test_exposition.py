"""Metrics as text, in both formats that Prometheus reads, whatever stands in a label."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from kohort.model.exposition import LABEL_LENGTH, Histogram, MetricFamily, counter, exposition, gauge, histogram


def families() -> list[MetricFamily]:
    measured = Histogram()
    measured.observe(0.000_3)
    return [
        gauge("kohort_group_info", "A group.", [({"group": "g", "state": "Stable"}, 1)]),
        gauge("kohort_exporter_last_look_timestamp_seconds", "When.", 1_795_831_592.86),
        counter("kohort_group_rebalances_total", "Rebalances.", [({"cause": "member_left"}, 3)]),
        histogram("kohort_broker_loop_lag_seconds", "Late.", [({}, measured)]),
        gauge("kohort_group_members", "None of them.", []),
    ]


def test_both_formats_are_read_with_the_same_samples() -> None:
    plain, opened = exposition(families()), exposition(families(), is_open=True)
    assert opened.endswith("# EOF\n")
    found = [
        sorted(
            (sample.name, sorted(sample.labels.items()), sample.value) for family in read for sample in family.samples
        )
        for read in (plain_families(plain), open_families(opened))
    ]
    assert found[0] == found[1]
    assert ("kohort_group_rebalances_total", [("cause", "member_left")], 3) in found[0]


@pytest.mark.parametrize("name", ['a"b\\c', "line\nbreak", "\x1b[2J", "x" * 10_000, "\ud800", "", "é漢"])
def test_no_label_breaks_the_text(name: str) -> None:
    text = exposition([gauge("kohort_group_members", "Members.", [({"group": name}, 1)])], is_open=True)
    [family] = open_families(text)
    [sample] = family.samples
    assert len(sample.labels["group"]) <= LABEL_LENGTH
    assert "\x1b" not in text
