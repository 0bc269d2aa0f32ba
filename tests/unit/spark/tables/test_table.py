"""What a table takes of a round's steps, and what it refuses."""

from __future__ import annotations

import pytest

from kohort.client.errors import CommitFailed
from kohort.model.ids import TopicPartition
from kohort.spark.tables.table import Fenced, Step, are_taken, check_steps

P, Q = TopicPartition("flights", 3), TopicPartition("flights", 4)


def test_steps_follow_what_the_table_holds() -> None:
    check_steps("t", "g", {P: 10}, {P: Step(10, 25), Q: Step(None, 3)})


@pytest.mark.parametrize(
    ("found", "step"),
    [({P: 15}, Step(10, 20)), ({P: 5}, Step(10, 20)), ({}, Step(0, 20)), ({P: 15}, Step(None, 20))],
    ids=["again", "gap", "nothing there", "not the first"],
)
def test_a_step_that_does_not_follow_is_refused(found: dict[TopicPartition, int], step: Step) -> None:
    with pytest.raises(Fenced, match=r"t refuses rows of group g: flights-3 is at offset .* there") as refused:
        check_steps("t", "g", found, {P: step})
    assert refused.value.offset == found.get(P)
    assert isinstance(refused.value, CommitFailed)


def test_steps_are_taken_where_the_table_has_reached_all_their_ends() -> None:
    steps = {P: Step(10, 20), Q: Step(None, 3)}
    assert are_taken({P: 25, Q: 3}, steps)
    assert not are_taken({P: 25, Q: 2}, steps)
    assert not are_taken({P: 25}, steps)
