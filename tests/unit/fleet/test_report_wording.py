"""Names made harmless, durations and times as people read them."""

from __future__ import annotations

import pytest
from tests.unit.fleet.reports import HOSTILE, report

from kohort.drawing.display_text import NAME_LENGTH, display_name, duration, hour, listed, moment, rule_title
from kohort.drawing.markup import Markup, joined, script_json, tag
from kohort.fleet.report.fleet_report import headline, points


@pytest.mark.parametrize("name", HOSTILE)
def test_a_displayed_name_is_short_and_never_empty(name: str) -> None:
    assert 0 < len(display_name(name)) <= 4 * NAME_LENGTH


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("orders", "orders"),
        ("счёт", "счёт"),
        ("", "(empty name)"),
        ("a b", "a b"),
        (" a ", "␠a␠"),
        ("  ", "␠␠"),
        ("a\tb", "a\\x09b"),
        ("a\u202eb", "a\\u202eb"),
        ("a\U000e0041b", "a\\U000e0041b"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(name: str, shown: str) -> None:
    assert display_name(name) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.04, "under 0.1 s"),
        (0.4, "0.4 s"),
        (3, "3 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3_600, "1 h"),
        (3_661, "1 h 1 min"),
        (90_000, "1 d 1 h"),
        (86_400_000, "1,000 d"),
    ],
)
def test_a_duration_is_formatted_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_times_are_utc_and_one_beyond_the_calendar_is_a_number() -> None:
    assert moment(1_793_664_000_000) == "3 Nov 2026 00:00:00"
    assert hour(1_793_664_000_000) == "3 Nov 00:00"
    assert moment(10**18) == "1000000000000000000 ms"
    assert moment(None) == "–"


def test_names_are_listed_with_the_rest_counted() -> None:
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_a_rule_is_called_by_its_name() -> None:
    assert rule_title("rebalance_storm") == "Rebalance storm"


def test_text_is_escaped_wherever_it_enters() -> None:
    assert tag("p", "<b>", class_='"x"') == '<p class="&quot;x&quot;">&lt;b&gt;</p>'
    assert joined(["a&", tag("i", "<")]) == "a&amp;<i>&lt;</i>"
    assert joined(Markup("<b>")) == "<b>"
    assert tag("p", hidden=True, title=None, data_at=3) == '<p hidden data-at="3"></p>'
    assert script_json(["</script>", "<!--", "\u2028"]) == '["\\u003c/script\\u003e","\\u003c!--","\\u2028"]'


def test_the_headline_counts_groups_by_their_worst_finding() -> None:
    made = report(groups=60)
    assert headline(made) == "4 of 60 groups need action now, and 10 should be looked into."
    todo, more = points(made)
    assert [point.severity for point in todo] == ["critical", "critical", "warning", "warning"]
    assert more == 0
