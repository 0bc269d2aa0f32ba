from __future__ import annotations

import pytest

from kohort.cli.groups import OffsetMove, ResetTo, changes, plan, topology_json
from kohort.cli.terminal.failure import CommandFailed
from kohort.model.ids import TopicPartition
from kohort.model.topology_description import PROCESSOR, SOURCE, DescribedNode, TopologyDescription

P0, P1 = TopicPartition("flights", 0), TopicPartition("flights", 1)
FIRST, END = {P1: 0, P0: 10}, {P1: 5, P0: 100}


def offsets(rule: ResetTo, number: int = 0, committed: dict[TopicPartition, int] | None = None) -> list[int]:
    return [move.offset for move in plan(rule, number, FIRST, END, committed or {}, {P0: 40, P1: None})]


def test_each_rule_aims_where_it_says() -> None:
    assert offsets(ResetTo.EARLIEST) == [10, 0]
    assert offsets(ResetTo.LATEST) == [100, 5]
    assert offsets(ResetTo.TIME) == [40, 5]
    assert offsets(ResetTo.SHIFT, -3, {P0: 50, P1: 4}) == [47, 1]


def test_a_plan_is_sorted_and_shows_what_is_committed() -> None:
    assert plan(ResetTo.EARLIEST, 0, FIRST, END, {P0: 50}, {}) == [
        OffsetMove(P0, 50, 10, False),
        OffsetMove(P1, None, 0, False),
    ]


def test_an_offset_outside_the_log_is_moved_to_its_nearest_end_and_marked() -> None:
    assert plan(ResetTo.OFFSET, 7, FIRST, END, {}, {}) == [
        OffsetMove(P0, None, 10, True),
        OffsetMove(P1, None, 5, True),
    ]
    assert offsets(ResetTo.SHIFT, -1000, {P0: 50, P1: 4}) == [10, 0]


def test_a_shift_without_a_committed_offset_names_the_partition() -> None:
    with pytest.raises(CommandFailed, match="flights-1 has no committed offset"):
        plan(ResetTo.SHIFT, 1, FIRST, END, {P0: 50}, {})


def test_only_moves_that_change_something_are_written() -> None:
    moves = plan(ResetTo.EARLIEST, 0, FIRST, END, {P0: 10}, {})
    assert [move.partition for move in changes(moves)] == [P1]


def test_program_of_a_streams_group_is_a_document_of_nodes() -> None:
    source, processor = DescribedNode("from", SOURCE, ("t",), None, (), ("by",)), DescribedNode("by", PROCESSOR)
    document = topology_json(TopologyDescription((("0", (source, processor)),), ((source, processor),)))
    (given, _) = document["subtopologies"]["0"]
    assert (given["name"], given["successors"]) == ("from", ("by",))
    assert [node["node_type"] for node in document["global_stores"][0]] == [1, 2]
