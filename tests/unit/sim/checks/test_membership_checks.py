"""Instances, leaders, and responses to removed members."""

from __future__ import annotations

import pytest
from tests.unit.sim.checks.scripted import (
    WHY,
    Script,
    breaks,
    classic,
    consumer,
    downgraded,
    enters,
    gathers,
    generation,
    goes,
    granted,
    group_epoch,
    joins,
    out,
    rejoins,
    replaced,
    target,
)

from kohort.group.events import Event, GroupDeleted, GroupLoaded
from kohort.model.errors import ErrorCode
from kohort.sim.checks.invariants import (
    EPOCH_MONOTONE,
    FENCED_MEMBER_GETS_ERROR,
    GENERATION_DENSE,
    LEADER_NEVER_ORPHANED,
    STATIC_SLOT_UNIQUE,
)
from kohort.sim.checks.membership_checks import EpochChecker, MembershipChecker


def test_an_instance_is_one_member_of_a_generation() -> None:
    script = Script(MembershipChecker)
    with breaks(STATIC_SLOT_UNIQUE, "instance i is both A and B"):
        script.happens(generation(1, ["A", "B"], instances={"A": "i", "B": "i"}))


def test_an_instance_is_one_member_of_a_consumer_group() -> None:
    script = Script(MembershipChecker)
    script.happens(enters("A", instance_id="i"))
    with breaks(STATIC_SLOT_UNIQUE, "instance i is both A and B"):
        script.happens(enters("B", instance_id="i"))


@pytest.mark.parametrize("back", [joins("A"), generation(2, ["A"]), enters("A"), replaced("C", "A")])
def test_a_replaced_member_id_never_comes_back(back: Event) -> None:
    script = Script(MembershipChecker)
    script.happens(*classic("A"), replaced("A", "B"))
    with breaks(STATIC_SLOT_UNIQUE, "A was replaced as i, and is a member again"):
        script.happens(back)


def test_an_instance_comes_back_under_a_new_id() -> None:
    script = Script(MembershipChecker)
    script.happens(generation(1, {"A": "t0"}, instances={"A": "i"}), replaced("A", "B", awaits_join=False))
    script.happens(generation(1, {"B": "t0"}, instances={"B": "i"}), enters("C", instance_id="j"), *out("C"))
    script.happens(enters("D", instance_id="j"), enters("D", instance_id="j"))
    assert script.times(STATIC_SLOT_UNIQUE) == 5


@pytest.mark.parametrize("leader", ["B", None])
def test_the_leader_of_a_generation_is_in_it(leader: str | None) -> None:
    script = Script(MembershipChecker)
    with breaks(LEADER_NEVER_ORPHANED, f"generation 1 is led by {leader}"):
        script.happens(generation(1, ["A"], leader=leader))


def test_a_generation_that_was_a_consumer_group_waits_for_its_first_leader() -> None:
    script = Script(MembershipChecker)
    script.happens(generation(7, {"A": "t0"}, leader=None), generation(8, ["A"]), generation(9, []))
    assert script.times(LEADER_NEVER_ORPHANED) == 3


@pytest.mark.parametrize("request_", ["Heartbeat", "SyncGroup"])
def test_a_heartbeat_after_eviction_does_not_succeed(request_: str) -> None:
    script = Script(MembershipChecker)
    script.happens(*classic("A", "B"), goes("A"))
    a = script.member("a", epoch=1)
    script.see.asked(a, request_, "")
    with breaks(FENCED_MEMBER_GETS_ERROR, f"a (A) is out of g, and its {request_} succeeds"):
        script.see.answered(a, request_, ErrorCode.NONE, "")


def test_an_evicted_member_is_fenced() -> None:
    script = Script(MembershipChecker)
    script.happens(*consumer(A="t0", B="t1"), *out("A"))
    a = script.member("a", epoch=2)
    script.see.asked(a, "ConsumerGroupHeartbeat", "")
    script.see.answered(a, "ConsumerGroupHeartbeat", ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert script.times(FENCED_MEMBER_GETS_ERROR) == 1


def test_a_heartbeat_that_was_sent_in_time_may_succeed() -> None:
    script = Script(MembershipChecker)
    script.happens(*classic("A", "B"))
    a = script.member("a", epoch=1)
    script.see.asked(a, "Heartbeat", "")
    script.happens(goes("A"))
    script.see.answered(a, "Heartbeat", ErrorCode.NONE, "")


def test_who_leaves_may_be_out_already() -> None:
    script = Script(MembershipChecker)
    script.happens(*consumer(A="t0"), *out("A"))
    a = script.member("a", epoch=2)
    script.see.member_moved(a, "leaving", "CloseRequested")
    script.see.asked(a, "ConsumerGroupHeartbeat", "epoch -1")
    script.see.answered(a, "ConsumerGroupHeartbeat", ErrorCode.NONE, "")


def test_a_static_member_may_learn_the_generation_that_it_missed() -> None:
    script = Script(MembershipChecker)
    script.happens(*classic("A", "B"), gathers(1), rejoins("B"), generation(2, ["B", "A"]))
    a = script.member("a", epoch=2)
    script.see.asked(a, "SyncGroup", "")
    script.see.answered(a, "SyncGroup", ErrorCode.NONE, "")
    script.happens(GroupLoaded("g", WHY))


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


def test_a_group_may_empty_end_and_begin_anew_and_continue_at_its_epoch() -> None:
    script = Script(EpochChecker)
    script.happens(*classic("A"), generation(2, []), GroupDeleted("g", WHY), *classic("B"), GroupDeleted("g", WHY))
    script.happens(*consumer(9, A="t0"), *downgraded(9, A="t0"), generation(10, ["A"]))
    assert script.times(GENERATION_DENSE) == 7


def test_no_member_shows_a_generation_that_is_not_stored() -> None:
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
