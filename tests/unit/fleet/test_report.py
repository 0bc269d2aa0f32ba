"""A report says what the fleet's tables say: gathered from tables that are made by hand, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from kohort.fleet.report.fleet_report import FleetReport, GroupKey, ReportLimits, Span, document, headline, points
from kohort.fleet.report.page import page
from kohort.fleet.report.report_queries import gather
from kohort.fleet.schema import HOUR_MS, Evidence, Table

START_MS = 1_793_664_000_000
"""3 November 2026 00:00 UTC."""

NOW_MS = START_MS + 100 * HOUR_MS
MINUTE_MS = 60_000
Row = Mapping[str, Any]


def relation(table: Table, rows: list[Row]) -> pa.Table:
    """Return rows as a table; what a row does not have is null."""
    unknown = {name for row in rows for name in row} - set(table.names)
    assert not unknown, unknown
    return pa.Table.from_pylist([dict(row) for row in rows], schema=table.arrow())


def hour(group: str, number: int, **fields: Any) -> Row:
    return {"source": "a", "group": group, "hour_ms": START_MS + number * HOUR_MS, "rebalances": 0, **fields}


def group(name: str, **fields: Any) -> Row:
    return {"source": "a", "group": name, "kind": "classic", "state": "Stable", "members": 2, "partitions": 4, **fields}


def found(name: str, rule: str, severity: str, **fields: Any) -> Row:
    fields_of_all = {"sentence": f"{name}: {rule}", "advice": f"mend {rule}", "from_ms": START_MS, "evidence": []}
    return {"source": "a", "group": name, "finding": rule, "severity": severity, **fields_of_all, **fields}


def gathered(limits: ReportLimits | None = None, **tables: list[Row]) -> FleetReport:
    """Return the report of tables; those that are not given are empty."""
    return gather(lambda table: relation(table, tables.get(table.name, [])), now_ms=NOW_MS, limits=limits)


def test_an_empty_fleet_has_a_report() -> None:
    report = gathered()
    assert report.totals.groups == 0
    assert "No group was found" in page(report)
    assert document(report)["rules"] == []


def test_hours_are_added_up_by_group_and_ranked() -> None:
    report = gathered(
        ReportLimits(ranked_groups=1, heat_groups=1),
        groups=[group("calm"), group("busy", lag=7), group("worse")],
        group_hours=[
            hour("busy", 0, rebalances=3, unowned_partition_seconds=10.0, rebalances_failed=1),
            hour("busy", 2, rebalances=2, unowned_partition_seconds=5.5),
            hour("worse", 1, rebalances=1, unowned_partition_seconds=60.0),
        ],
    )
    assert (report.totals.rebalances, report.totals.rebalances_failed, report.totals.unowned_s) == (6, 1, 75.5)
    assert (report.totals.groups, report.totals.lag) == (3, 7)
    assert report.fleet_rebalances == (3, 1, 2)
    assert [(row.key.group, row.rebalances) for row in report.heat] == [("busy", (3, 0, 2))]
    assert report.heat_left_out == (1, 1)
    assert report.ranking == ((GroupKey("a", "worse"), 60.0),)
    assert report.ranking_left_out == (1, 15.5)
    assert [line.key.group for line in report.groups] == ["worse", "busy", "calm"]
    assert report.groups[1].activity == ((0, 3), (2, 2))


def test_groups_with_the_worst_findings_come_first_and_the_rest_is_counted() -> None:
    evidence = [Evidence(7, offset, START_MS, f"record {offset}")._asdict() for offset in range(9)]
    report = gathered(
        ReportLimits(groups=2, findings_of_a_rule=1, evidence=4),
        groups=[group("a"), group("b"), group("c")],
        group_hours=[hour("a", 0, rebalances=9, unowned_partition_seconds=99.0)],
        findings=[
            found("b", "idle", "warning", value=1.0),
            found("c", "idle", "warning", value=2.0, evidence=evidence),
            found("c", "stuck", "critical"),
        ],
    )
    assert [(line.key.group, line.severity, line.findings) for line in report.groups] == [
        ("c", "critical", 2),
        ("b", "warning", 1),
    ]
    assert [(rule.rule, rule.severity, rule.groups, rule.left_out) for rule in report.rules] == [
        ("stuck", "critical", 1, 0),
        ("idle", "warning", 2, 1),
    ]
    worst = report.rules[1].shown[0]
    assert (worst.key.group, worst.evidence_left_out) == ("c", 5)
    assert [record.offset for record in worst.evidence] == [0, 1, 2, 3]
    assert [(finding.key.group, finding.rule, finding.evidence) for finding in report.further] == [("b", "idle", ())]
    assert dict(report.totals.severities) == {"critical": 1, "warning": 1, "info": 0}
    text = page(report)
    assert "1 of 3 groups needs action now, and 1 should be looked into." in text
    assert "1 more of this rule" in text
    assert "1 group without anything remarkable left out" in text


def test_hours_of_a_clock_that_jumped_do_not_stretch_the_report() -> None:
    report = gathered(
        groups=[group("a")],
        group_hours=[
            *(hour("a", number, rebalances=1) for number in range(50)),
            {**hour("a", 0, rebalances=100), "hour_ms": 0},
            {**hour("a", 0, rebalances=100), "hour_ms": START_MS + 10**12 - (START_MS + 10**12) % HOUR_MS},
        ],
    )
    assert report.columns.from_ms == START_MS
    assert report.columns.count == 50
    assert report.totals.rebalances == 50
    assert report.read.hours_outside == 2
    assert "2 hours of groups lie outside" in page(report)


def owned(partition: int, member: str, start: int, end: int | None, of: str = "a") -> Row:
    """A span of ownership, in minutes of the second hour."""
    from_ms = START_MS + HOUR_MS
    return {
        "source": "a", "group": of, "topic": "t", "topic_partition": partition, "member": member,
        "from_ms": from_ms + start * MINUTE_MS, "until_ms": None if end is None else from_ms + end * MINUTE_MS,
    }  # fmt: skip


def test_a_timeline_is_of_the_worst_hour_and_cut_to_it() -> None:
    report = gathered(
        ReportLimits(timeline_partitions=2),
        groups=[group("a")],
        group_hours=[
            hour("a", 0, rebalances=9),
            hour("a", 1, rebalances=1, unowned_partition_seconds=60.0),
            hour("a", 2, rebalances=2),
        ],
        ownership=[
            owned(0, "m1", -30, 10),
            owned(0, "m2", 11, None),
            owned(1, "m1", -90, -80),
            owned(2, "m1", -5, 80),
            owned(3, "m2", 50, 90),
        ],
    )
    (drawn,) = report.timelines
    from_ms, until_ms = START_MS + HOUR_MS, START_MS + 2 * HOUR_MS
    assert (drawn.from_ms, drawn.until_ms, drawn.partitions_left_out) == (from_ms, until_ms, 1)
    assert [row.partition for row in drawn.rows] == ["t-0", "t-2"]
    assert drawn.rows[0].spans == (
        Span("m1", from_ms, from_ms + 10 * MINUTE_MS),
        Span("m2", from_ms + 11 * MINUTE_MS, until_ms),
    )
    assert "01:10:00 for 1 min" in page(report)


def test_a_group_without_members_leaves_no_partition_without_an_owner() -> None:
    def event(minute: int, name: str) -> Row:
        return {"source": "a", "group": "a", "event": name, "at_ms": START_MS + minute * MINUTE_MS, "offset": minute}

    report = gathered(
        groups=[group("a")],
        group_hours=[hour("a", 0, rebalances=1, unowned_partition_seconds=1.0)],
        ownership=[
            {**owned(0, "m1", 0, 0), "from_ms": START_MS, "until_ms": START_MS + 10 * MINUTE_MS},
            {**owned(0, "m1", 0, 0), "from_ms": START_MS + 31 * MINUTE_MS, "until_ms": None},
        ],
        events=[
            event(0, "joined"),
            event(10, "emptied"),
            event(10, "expired"),
            event(30, "joined"),
            event(40, "joined"),
        ],
    )
    (drawn,) = report.timelines
    assert drawn.empty == ((START_MS + 10 * MINUTE_MS, START_MS + 30 * MINUTE_MS),)
    assert "00:30:00 for 1 min" in page(report)


def test_report_counts_records_tombstones_and_quarantined_input() -> None:
    report = gathered(
        groups=[group("a")],
        counts=[
            {"source": "a", "partition": 0, "kind": "offset commit", "records": 5, "tombstones": 1},
            {"source": "b", "partition": 3, "kind": "offset commit", "records": 2, "tombstones": 0},
        ],
        quarantine=[{"source": "a", "reason": "CRC does not match"}] * 2,
    )
    assert report.read.sources == ("a", "b")
    assert (report.read.records, report.read.tombstones) == (7, 1)
    assert "2 × CRC does not match" in page(report)


def test_a_partition_without_an_owner_for_the_whole_hour_is_drawn_empty() -> None:
    report = gathered(
        groups=[group("a")],
        group_hours=[hour("a", 1, rebalances=1, unowned_partition_seconds=3600.0, partitions=2)],
        ownership=[
            owned(0, "m1", -5, None),
            owned(1, "m1", 70, None),
            owned(2, "m1", 700, None),
            owned(3, "m1", -90, -80),
        ],
    )
    (drawn,) = report.timelines
    assert [(row.partition, len(row.spans)) for row in drawn.rows] == [("t-0", 1), ("t-1", 0)]
    assert "01:00:00 for 1 h" in page(report)


def test_a_classic_group_that_is_not_ready_can_wait() -> None:
    report = gathered(
        groups=[group("a"), group("b"), group("c"), group("d", kind="consumer")],
        findings=[
            found("a", "not_ready_for_consumer", "warning", sentence="its assignor is its own", advice="take Kafka's"),
            found("b", "not_ready_for_consumer", "warning", sentence="another", advice="take Kafka's"),
            found("c", "ready_for_consumer", "info"),
        ],
    )
    ready = report.readiness
    assert (ready.moved, ready.ready, ready.not_ready, ready.unknown) == (1, 1, 2, 0)
    assert [(why.advice, why.groups, len(why.shown)) for why in ready.reasons] == [("take Kafka's", 2, 2)]
    assert headline(report) == "Nothing is wrong with the 4 groups that were read."
    assert points(report) == ([], 0)
