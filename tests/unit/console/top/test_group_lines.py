"""Lines of the screens: any width, any name, and what is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.console.looks import listed, look, member

from kohort.client.admin.group_descriptions import GroupDescription
from kohort.console.history.watched_cluster import GroupQuery, WatchedCluster
from kohort.console.top.group_lines import (
    TopLine,
    feed_lines,
    group_columns,
    group_lines,
    heading,
    parsed_key,
    rebalance_lines,
    row_line,
    summary_document,
    table_cells,
    wrapped,
)
from kohort.drawing.display_text import TimeAxis, cells
from kohort.drawing.ownership_characters import letters_of, strip
from kohort.drawing.ownership_drawing import Lane, OwnedSpan
from kohort.model.ids import TopicPartition
from kohort.wire.embedded_protocols import StreamsAssignment, StreamsTask

HOSTILE = ("\x1b[31m[bold]x", "g" * 249, "", "\u202egnp.exe", "日本語" * 60, "\udcff", "a\nb", "e\u0301" * 90)


def stood_still(name: str = "billing") -> WatchedCluster:
    """Two members; one is gone after 10 s, and for 4 s no member owns what it had."""
    watched = WatchedCluster()
    watched.fold_listing([listed(name)])
    both = look("Stable", member("a-1", 0, 1), member("b-1", 2, 3), group_id=name)
    watched.fold_description(1_000, name, both)
    watched.fold_description(10_000, name, look("PreparingRebalance", member("a-1"), group_id=name))
    watched.fold_description(14_000, name, look("Stable", member("a-1", 0, 1, 2, 3), group_id=name))
    zero, one = TopicPartition("orders", 0), TopicPartition("orders", 1)
    watched.fold_offsets(14_000, name, {zero: 5, one: 2}, {zero: 30, one: 2})
    return watched


def texts(lines: list[TopLine]) -> str:
    return "\n".join(line.text for line in lines)


def test_a_group_that_stood_still_shows_who_owned_what_why_and_at_what_cost() -> None:
    watched = stood_still()
    group = watched.groups["billing"]
    shown = texts(group_lines(watched, group, 5, 20_000, 80))
    assert "b is gone: it left or was evicted" in shown
    assert "16 unowned partition-seconds" in shown
    strips = [line.split()[1] for line in shown.splitlines() if line.startswith("orders-") and ":" in line]
    assert len(strips) == 4
    assert all(set(each) <= set("ab!:") for each in strips)
    assert "a a, b b; ! no owner" in shown
    (key,) = {line.key for line in group_lines(watched, group, 5, 20_000, 80) if line.key}
    assert parsed_key(key) == ("billing", 1)
    opened = texts(rebalance_lines(group, 1, lambda words: "kohort " + " ".join(words), 20_000, 100))
    assert "cost: 4 of 4 partitions unowned for 4.0 s (16.0 partition-seconds)" in opened
    assert "kohort what-if billing --bounce rolling --compare" in opened
    assert "kohort migrate plan billing --to consumer" in opened
    assert "no longer stored" in texts(rebalance_lines(group, 7, str, 20_000, 40))


def test_what_is_unknown_is_no_zero() -> None:
    watched = stood_still()
    (row,) = watched.selected(GroupQuery(), 20_000)
    line = row_line(group_columns([row], 80), row).text.split()
    assert line[:5] == ["billing", "Stable", "1", "≥25", "?"]
    assert table_cells(row)["lag"] == "≥ 25"
    document = summary_document(row)
    assert (document["lag"], document["lag_is_least"], document["lag_seconds"]) == (25, True, None)
    partitions = texts(group_lines(watched, watched.groups["billing"], 5, 20_000, 80)).split("PARTITIONS")[-1]
    assert [line.split()[:2] for line in partitions.splitlines() if line.startswith("orders-")] == [
        ["orders-0", "25"],
        ["orders-1", "0"],
        ["orders-2", "?"],
        ["orders-3", "?"],
    ]


@pytest.mark.parametrize("width", [1, 20, 33, 47, 80, 81, 132, 400])
@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_fits_into_any_width_and_acts_on_no_terminal(name: str, width: int) -> None:
    watched = stood_still(name)
    watched.fold_description(
        30_000,
        name,
        look("Stable", member(f"{name}-{'0' * 36}", 0, instance=name, topics=(name,)), group_id=name, protocol=name),
    )
    group = watched.groups[name]
    (row,) = watched.selected(GroupQuery(), 40_000)
    columns = group_columns([row], width)
    table = [heading(columns), row_line(columns, row)]
    lines = group_lines(watched, group, 5, 40_000, width)
    assert all(line.text.isprintable() for line in [*table, *lines, *feed_lines(watched)]), name
    assert all(cells(line.text) <= max(width, 14) for line in table)
    opened = rebalance_lines(group, 2, lambda _: "kohort", 40_000, width)
    assert all(line.text.isprintable() for line in opened), name


def test_columns_that_have_no_room_go_and_the_name_stays_to_the_last() -> None:
    rows = stood_still().selected(GroupQuery(), 20_000)
    shown = [[column.heading for column, _ in group_columns(rows, width)] for width in (110, 80, 60, 30, 5)]
    assert len(shown[0]) == 8
    assert "PROTOCOL" not in shown[1]
    assert "LAST REBALANCE" in shown[1]
    assert shown[3] == ["GROUP", "STATE"]
    assert shown[4] == ["GROUP"]
    for width in (110, 80, 60, 30):
        assert sum(each + 1 for _, each in group_columns(rows, width)) - 1 <= width


def test_a_text_is_broken_by_its_width_on_a_terminal() -> None:
    assert [line.text for line in wrapped("日本語日本 a bc", 5)] == ["日本", "語日", "本 a", "bc"]
    assert [line.text for line in wrapped("kohort explain x", 8, indent="  ")] == ["  kohort", "  explai", "  n x"]


def test_a_strip_shows_owners_and_times_without_one_however_short() -> None:
    lane = Lane("p-0", [OwnedSpan("x", 0, 40), OwnedSpan("y", 60, 90)], [(40, 60), (81, 82)], [(90, 100)])
    axis = TimeAxis(0, 100, is_clock=False)
    assert strip(lane, axis, letters_of(["x", "y"]), 10) == "aaaa!!bb:-"
    assert strip(lane, axis, letters_of(["x", "y"]), 1) == ":"
    assert letters_of([str(number) for number in range(54)])["53"] == "*"


def test_no_partition_of_a_share_group_lacks_an_owner() -> None:
    watched = WatchedCluster()
    watched.fold_listing([listed("s", group_type="share")])
    both = (member("a-1", 0), member("b-1", 0))
    described = GroupDescription("s", "Stable", "share", "simple", both, "share", 3, 3)
    watched.fold_description(1_000, "s", described)
    shown = texts(group_lines(watched, watched.groups["s"], 5, 20_000, 120))
    assert "none has an owner" in shown
    assert "shared by members" in shown
    assert "no owner" not in shown


def test_members_of_a_streams_group_have_tasks_and_warm_ups() -> None:
    watched = WatchedCluster()
    watched.fold_listing([listed("s", group_type="streams")])
    warm = StreamsTask(1, 0)
    given = StreamsAssignment(0, active=(StreamsTask(0, 0), StreamsTask(0, 1)))
    one = replace(member("a-1", 0), is_native=True, streams=(None, given), warmups=(warm,), task_lags={warm: 5_000})
    watched.fold_description(1_000, "s", GroupDescription("s", "Stable", "streams", "", (one,), "streams", 3, 3))
    shown = texts(group_lines(watched, watched.groups["s"], 5, 20_000, 200))
    assert "tasks: 2 active, 1 warming up (up to 5,000 behind)" in shown
