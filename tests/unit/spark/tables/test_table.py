"""What a table takes of a round's steps, and what it refuses."""

from __future__ import annotations

from contextlib import suppress

import pytest

from kohort.client.errors import CommitFailed
from kohort.model.ids import TopicPartition
from kohort.spark.tables.table import BATCHES, Fenced, OffsetStep, OtherTopic, Position, are_taken, check_steps

P, Q = TopicPartition("flights", 3), TopicPartition("flights", 4)


def step(expected: int | None, stop: int, topic_id: str | None = None) -> OffsetStep:
    return OffsetStep(None if expected is None else Position(expected), Position(stop, topic_id))


@pytest.mark.parametrize(
    ("found", "topic_id"), [(Position(10), None), (Position(10, "9w3YQ1aBR0"), "9w3YQ1aBR0mzUq2vXk7Wlg")]
)
def test_steps_follow_what_the_table_has(found: Position, topic_id: str | None) -> None:
    taken = []
    for expected in (None, *range(25)):
        with suppress(Fenced):
            check_steps("t", "g", {P: found}, {P: step(expected, 25, topic_id), Q: step(None, 3)})
            taken.append(expected)
    assert taken == [10]


@pytest.mark.parametrize(
    ("found", "wrong"),
    [({P: 15}, step(10, 20)), ({P: 5}, step(10, 20)), ({}, step(0, 20)), ({P: 15}, step(None, 20))],
    ids=["again", "gap", "nothing there", "not the first"],
)
def test_a_step_that_does_not_follow_is_refused(found: dict[TopicPartition, int], wrong: OffsetStep) -> None:
    known = {each: Position(offset) for each, offset in found.items()}
    with pytest.raises(Fenced, match=r"t refuses rows of group g: flights-3 is at offset .* there") as refused:
        check_steps("t", "g", known, {P: wrong})
    assert refused.value.position == known.get(P)
    assert isinstance(refused.value, CommitFailed)


def test_a_step_of_another_topic_is_refused_wherever_it_begins() -> None:
    for expected in (None, 10, 50):
        with pytest.raises(OtherTopic, match=r"offset 50 of flights-3 .* id old, and the topic's id is new"):
            check_steps("t", "g", {P: Position(50, "old")}, {P: step(expected, 80, "new")})
    of_batches = TopicPartition(f"{BATCHES}query", 0)
    with pytest.raises(OtherTopic, match="batches up to 4 of group g, of the query with the id a, and this query's id"):
        check_steps("t", "g", {of_batches: Position(5, "a")}, {of_batches: step(5, 6, "b")})


def test_steps_are_taken_where_the_table_has_reached_all_their_ends() -> None:
    steps = {P: step(10, 20), Q: step(None, 3, "new")}
    assert are_taken({P: Position(25), Q: Position(3, "new")}, steps)
    assert not are_taken({P: Position(25), Q: Position(2)}, steps)
    assert not are_taken({P: Position(25), Q: Position(3, "old")}, steps)
    assert not are_taken({P: Position(25)}, steps)
