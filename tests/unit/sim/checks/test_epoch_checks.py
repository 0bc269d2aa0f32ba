"""Numbers that only grow, and that nobody shows before they are stored."""

from __future__ import annotations

import pytest
from tests.unit.sim.checks.scripted import (
    WHY,
    Script,
    breaks,
    classic,
    consumer,
    downgraded,
    gathers,
    generation,
    granted,
    group_epoch,
    out,
    target,
)

from kohort.group.events import Event, GroupDeleted
from kohort.group.invariants import EPOCH_MONOTONE, GENERATION_DENSE
from kohort.sim.checks.epoch_checks import EpochChecker


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (group_epoch(1), "group epoch 1 after 2"),
        (target(1)[-1], "target epoch 1 after 2"),
        (target(3)[-1], "a target of epoch 3, the group is at 2"),
        (granted("A", 1), "A goes back from 2 to 1"),
        (granted("A", 3), "A is sent to epoch 3, the group is at 2"),
    ],
)
def test_no_epoch_goes_back_or_ahead_of_its_group(event: Event, words: str) -> None:
    script = Script(EpochChecker)
    script.happens(*consumer(A="t0"))
    with breaks(EPOCH_MONOTONE, words):
        script.happens(event)


def test_epochs_grow_and_a_static_member_comes_back_with_the_one_it_had() -> None:
    script = Script(EpochChecker)
    script.happens(*consumer(A="t0"), group_epoch(2), group_epoch(5), *target(4), granted("A", 4, "t0"))
    script.happens(granted("A", -2, "t0"), granted("A", 0, "t0"), granted("A", 4, "t0"))
    assert script.times(EPOCH_MONOTONE) > 5


def test_a_generation_follows_on_the_last() -> None:
    script = Script(EpochChecker)
    script.happens(*classic("A"))
    with breaks(GENERATION_DENSE, "generation 3 follows 1, expected 2"):
        script.happens(gathers(1), generation(3, ["A"]))


def test_a_number_is_not_given_out_twice() -> None:
    script = Script(EpochChecker)
    script.happens(*classic("A"))
    with breaks(GENERATION_DENSE, "generation 1 follows 1"):
        script.happens(generation(1, ["A", "B"]))


def test_assignments_belong_to_the_stored_generation() -> None:
    script = Script(EpochChecker)
    script.happens(*classic("A"), generation(2, ["A"]))
    with breaks(GENERATION_DENSE, "assignments of generation 3, the stored one is 2"):
        script.happens(generation(3, {"A": "t0"}))


def test_a_group_may_empty_end_and_begin_anew_and_go_on_at_its_epoch() -> None:
    script = Script(EpochChecker)
    script.happens(*classic("A"), generation(2, []), GroupDeleted("g", WHY), *classic("B"), GroupDeleted("g", WHY))
    script.happens(*consumer(9, A="t0"), *downgraded(9, A="t0"), generation(10, ["A"]))
    assert script.times(GENERATION_DENSE) == 7


def test_nobody_shows_a_generation_that_is_not_stored() -> None:
    script = Script(EpochChecker)
    script.happens(*classic("A"))
    a = script.member("a", epoch=1)
    script.see.asked(a, "Heartbeat", "")
    with breaks(GENERATION_DENSE, "a (A) shows 2 in SyncGroup, the log of g knows 1"):
        script.see.asked(a.is_now(2), "SyncGroup", "")


def test_a_member_shows_no_epoch_before_one_that_it_has_shown() -> None:
    script = Script(EpochChecker)
    script.happens(*consumer(A="t0"), group_epoch(5))
    a = script.member("a", epoch=4)
    script.see.asked(a, "ConsumerGroupHeartbeat", "")
    with breaks(EPOCH_MONOTONE, "shows 3 after it had shown 4"):
        script.see.asked(a.is_now(3), "ConsumerGroupHeartbeat", "")


def test_a_member_that_joins_anew_may_find_a_new_group() -> None:
    script = Script(EpochChecker)
    script.happens(*consumer(9, A="t0"))
    a = script.member("a", epoch=9)
    script.see.asked(a, "ConsumerGroupHeartbeat", "")
    script.happens(*out("A"))
    script.see.asked(a.is_now(0), "ConsumerGroupHeartbeat", "")
    script.see.asked(a.is_now(2), "ConsumerGroupHeartbeat", "")
