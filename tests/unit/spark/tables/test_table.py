"""What a table takes of a partition's steps, and what it refuses."""

from __future__ import annotations

import pytest

from kohort.client.errors import CommitFailed
from kohort.model.ids import TopicPartition
from kohort.spark.tables.table import UNCLAIMED, Claim, Fenced, Held, Step, Superseded, advance, claim, place

P = TopicPartition("flights", 3)
FIRST, LATER = Claim(5, "a"), Claim(6, "b")


def test_a_claim_of_a_later_generation_takes_over_and_leaves_the_offset() -> None:
    assert claim(P, Held(10, FIRST), LATER) == Held(10, LATER)
    assert claim(P, Held(), FIRST) == Held(None, FIRST)


def test_a_claim_of_the_same_generation_takes_over_as_a_static_member_does_that_came_back() -> None:
    assert claim(P, Held(10, FIRST), Claim(5, "a again")) == Held(10, Claim(5, "a again"))


def test_a_claim_of_an_older_generation_is_refused_unless_the_group_counts_anew() -> None:
    with pytest.raises(Superseded, match=r"flights-3 .*generation 5: it is at offset 10 in generation 6 of member b"):
        claim(P, Held(10, LATER), FIRST)
    assert claim(P, Held(10, LATER), FIRST, is_renewed=True) == Held(10, FIRST)


def test_a_step_moves_the_offset_from_its_start_to_its_stop() -> None:
    assert advance(P, Held(10, FIRST), Step(10, 25, FIRST)) == Held(25, FIRST)
    assert advance(P, Held(10, FIRST), Step(10, 25)) == Held(25, FIRST)
    assert advance(P, Held(), Step(None, 25)) == Held(25, UNCLAIMED)


@pytest.mark.parametrize(
    ("held", "step"),
    [
        (Held(10, LATER), Step(10, 20, FIRST)),
        (Held(10, Claim(5, "b")), Step(10, 20, FIRST)),
        (Held(15, FIRST), Step(10, 20, FIRST)),
        (Held(5, FIRST), Step(10, 20, FIRST)),
        (Held(None, FIRST), Step(0, 20, FIRST)),
        (Held(15, FIRST), Step(10, 20)),
        (Held(15, FIRST), Step(None, 20)),
    ],
    ids=["later owner", "other owner", "again", "gap", "not placed", "again, no claim", "not the first, no claim"],
)
def test_a_step_that_does_not_fit_is_refused(held: Held, step: Step) -> None:
    with pytest.raises(Fenced, match="the table refuses rows "):
        advance(P, held, step)


def test_only_the_owner_places_an_offset() -> None:
    assert place(P, Held(None, FIRST), FIRST, 40) == Held(40, FIRST)
    with pytest.raises(Fenced, match="a new offset"):
        place(P, Held(10, LATER), FIRST, 40)


def test_a_fenced_commit_of_a_table_is_a_commit_failed() -> None:
    assert issubclass(Fenced, CommitFailed)
