"""Who may act on a partition, and to whom it may be granted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.sim.checks.scripted import (
    Script,
    breaks,
    classic,
    commit,
    consumer,
    gathers,
    generation,
    goes,
    granted,
    group_epoch,
    of,
    out,
    rejoins,
    target,
    upgraded,
)

from kohort.group.events import Held, MemberState
from kohort.group.image import FixedTopics, ImageTopic
from kohort.group.invariants import NO_DOUBLE_OWNERSHIP, WITHHOLDING
from kohort.model.cause import Cause, CauseKind
from kohort.sim.checks.ownership_checks import OwnershipChecker

RECONCILED = Cause(CauseKind.MEMBER_RECONCILED, 0)


def test_two_members_of_a_group_do_not_act_on_one_partition() -> None:
    script = Script(OwnershipChecker)
    script.happens(*classic(A="t0 t1", B="t2"))
    script.see.owns(script.member("a"), of("t0 t1"))
    with breaks(NO_DOUBLE_OWNERSHIP, "b (B) takes t-1", "a (A)"):
        script.see.owns(script.member("b"), of("t1 t2"))


def test_a_partition_that_was_given_up_is_free() -> None:
    script = Script(OwnershipChecker)
    script.happens(*classic(A="t0 t1", B=""))
    a = script.member("a")
    script.see.owns(a, of("t0 t1"))
    script.see.owns(a, of("t0"))
    script.see.owns(script.member("b"), of("t1"))
    assert script.times(NO_DOUBLE_OWNERSHIP) == 3


@pytest.mark.parametrize("is_cleared", [False, True], ids=["granted", "taken away since"])
def test_who_hears_late_of_a_topic_that_was_made_anew_does_not_act_on_the_new_one(is_cleared: bool) -> None:
    script = Script(OwnershipChecker)
    script.happens(*consumer(A="t0", B=""))
    script.shard.settings = replace(script.shard.settings, image=FixedTopics([ImageTopic("t", b"n" * 16, 3)]))
    if is_cleared:
        script.happens(granted("A", 2, ""))
    script.see.owns(script.member("a"), of("t0"))
    of_new = replace(granted("B", 3, ""), assigned=(Held(b"n" * 16, (0,), (3,)),))
    script.happens(of_new)
    script.see.owns(script.member("b"), of("t0"))


def test_groups_share_partitions() -> None:
    script = Script(OwnershipChecker)
    script.see.owns(script.member("a"), of("t0"))
    script.see.owns(script.member("b", group_id="h"), of("t0"))


def test_who_was_evicted_and_has_not_heard_of_it_may_still_act() -> None:
    script = Script(OwnershipChecker)
    script.happens(*classic(A="t0", B="t1"))
    script.see.owns(script.member("a"), of("t0"))
    script.happens(goes("A"), gathers(1), rejoins("B"), generation(2, ["B"]), generation(2, {"B": "t0 t1"}))
    script.see.owns(script.member("b"), of("t0 t1"))


def test_nothing_that_an_evicted_owner_commits_is_accepted() -> None:
    script = Script(OwnershipChecker)
    script.happens(*consumer(A="t0", B="t1"))
    script.see.owns(script.member("a"), of("t0"))
    script.happens(*out("A"), group_epoch(3), granted("B", 3, "t0 t1"))
    script.see.owns(script.member("b"), of("t0 t1"))
    script.happens(commit("B", 7))
    with breaks(NO_DOUBLE_OWNERSHIP, "a (A) was put out", "t-0"):
        script.happens(commit("A", 5))


def test_a_static_member_that_missed_the_round_may_not_know_of_it() -> None:
    script = Script(OwnershipChecker)
    script.happens(*classic(A="t0", B="t1"))
    script.see.owns(script.member("a"), of("t0"))
    script.happens(gathers(1), rejoins("B"), generation(2, ["B", "A"]), generation(2, {"B": "t0 t1", "A": ""}))
    script.see.owns(script.member("b"), of("t0 t1"))


def missed_a_round_and_is_converted() -> Script:
    script = Script(OwnershipChecker)
    script.happens(*classic(A="t0", B="t1"))
    script.see.owns(script.member("a"), of("t0"))
    script.happens(gathers(1), rejoins("B"), generation(2, ["B", "A"]), generation(2, {"B": "t0 t1", "A": ""}))
    script.happens(*upgraded(2, A="", B="t0 t1"))
    return script


def test_who_missed_the_round_knows_nothing_of_it_when_the_group_is_converted_either() -> None:
    script = missed_a_round_and_is_converted()
    script.see.owns(script.member("b"), of("t0 t1"))


def test_who_missed_the_round_and_shows_the_epoch_since_was_told_it() -> None:
    script = missed_a_round_and_is_converted()
    script.ledgers.group("g").hear("A", 2)
    with breaks(NO_DOUBLE_OWNERSHIP):
        script.see.owns(script.member("b"), of("t0 t1"))


def test_a_member_that_joined_the_round_knows_of_it() -> None:
    script = Script(OwnershipChecker)
    script.happens(*classic(A="t0", B="t1"))
    script.see.owns(script.member("a"), of("t0"))
    script.happens(
        gathers(1), rejoins("A"), rejoins("B"), generation(2, ["B", "A"]), generation(2, {"B": "t0 t1", "A": ""})
    )
    with breaks(NO_DOUBLE_OWNERSHIP):
        script.see.owns(script.member("b"), of("t0 t1"))


def test_a_static_member_that_left_for_a_while_was_not_asked() -> None:
    script = Script(OwnershipChecker)
    script.happens(*consumer(A="t0", B="t1"))
    script.see.owns(script.member("a"), of("t0"))
    script.happens(granted("A", -2, ""), granted("B", 2, "t0 t1"))
    script.see.owns(script.member("b"), of("t0 t1"))


def test_a_partition_is_not_granted_while_another_has_it() -> None:
    script = Script(OwnershipChecker)
    script.happens(*consumer(A="t0 t1", B="t2"))
    with breaks(WITHHOLDING, "B is granted", "which A has since epoch 2"):
        script.happens(granted("B", 3, "t1 t2"))


def test_a_partition_is_not_granted_while_it_is_asked_back() -> None:
    script = Script(OwnershipChecker)
    script.happens(*consumer(A="t0 t1", B="t2"), granted("A", 2, "t0", pending="t1"))
    with breaks(WITHHOLDING, "which A has"):
        script.happens(granted("B", 3, "t1 t2"))


def test_a_partition_is_granted_once_it_was_given_back() -> None:
    script = Script(OwnershipChecker)
    script.happens(*consumer(A="t0 t1", B="t2"), group_epoch(3), granted("A", 2, "t0", pending="t1"))
    script.happens(granted("B", 3, "t2", state=MemberState.UNRELEASED_PARTITIONS))
    script.happens(granted("A", 3, "t0"), granted("B", 3, "t1 t2"))
    assert script.times(WITHHOLDING) == 4


def test_who_is_kept_waiting_waits_for_somebody() -> None:
    """KAFKA-19449: what it gave back itself is nobody's."""
    script = Script(OwnershipChecker)
    script.happens(*consumer(A="t0 t1", B=""), group_epoch(3), *target(3, A="t0", B="t1"))
    waits = replace(granted("B", 3, state=MemberState.UNRELEASED_PARTITIONS), cause=RECONCILED)
    script.happens(granted("A", 2, "t0", pending="t1"), waits)
    with breaks(WITHHOLDING, "A is kept waiting in epoch 4, and nobody else has any of the 1 partitions"):
        script.happens(group_epoch(4), *target(4, A="t0 t1", B=""))
        step = granted("A", 4, "t0", state=MemberState.UNRELEASED_PARTITIONS)
        script.happens(replace(step, cause=RECONCILED))
