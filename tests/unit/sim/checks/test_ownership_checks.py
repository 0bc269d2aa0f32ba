"""Who may act on a partition, and which member it may be granted to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.group.fixed_topics import FixedTopics
from tests.unit.sim.checks.scripted import (
    Script,
    T,
    breaks,
    classic,
    commit,
    consumer,
    downgraded,
    enters,
    gathers,
    generation,
    goes,
    granted,
    group_epoch,
    joins,
    of,
    out,
    rejoins,
    target,
    upgraded,
)

from kohort.group.coordinator_settings import ImageTopic
from kohort.group.events import Assigned, GroupStored, MemberState
from kohort.model.cause import Cause, CauseKind
from kohort.model.subscription import Subscription
from kohort.sim.checks.group_ledger import Ledgers
from kohort.sim.checks.invariants import (
    MIGRATION_KEEPS_OWNERS,
    NO_DOUBLE_OWNERSHIP,
    STABLE_MEANS_CONVERGED,
    TARGET_LEGAL,
    WITHHOLDING,
)
from kohort.sim.checks.ownership_checks import ConversionChecker, OwnershipChecker, TargetChecker
from kohort.wire.consumer_protocol import encode_subscription

RECONCILED = Cause(CauseKind.MEMBER_RECONCILED, 0)


def test_two_members_of_a_group_do_not_act_on_one_partition() -> None:
    script = Script(OwnershipChecker)
    script.happens(*classic(A="t0 t1", B="t2"))
    script.see.owns(script.member("a"), of("t0 t1"))
    with breaks(NO_DOUBLE_OWNERSHIP, "b (B) takes t-1", "a (A)"):
        script.see.owns(script.member("b"), of("t1 t2"))


def test_a_partition_that_was_revoked_is_free() -> None:
    script = Script(OwnershipChecker)
    script.happens(*classic(A="t0 t1", B=""))
    a = script.member("a")
    script.see.owns(a, of("t0 t1"))
    script.see.owns(a, of("t0"))
    script.see.owns(script.member("b"), of("t1"))
    assert script.times(NO_DOUBLE_OWNERSHIP) == 3


@pytest.mark.parametrize("is_cleared", [False, True], ids=["granted", "taken away since"])
def test_a_member_that_learns_late_of_a_topic_that_was_made_anew_does_not_act_on_the_new_one(is_cleared: bool) -> None:
    script = Script(OwnershipChecker)
    script.happens(*consumer(A="t0", B=""))
    script.shard.settings = replace(script.shard.settings, image=FixedTopics([ImageTopic("t", b"n" * 16, 3)]))
    if is_cleared:
        script.happens(granted("A", 2, ""))
    script.see.owns(script.member("a"), of("t0"))
    of_new = replace(granted("B", 3, ""), assigned=(Assigned(b"n" * 16, (0,), (3,)),))
    script.happens(of_new)
    script.see.owns(script.member("b"), of("t0"))


def test_groups_share_partitions() -> None:
    script = Script(OwnershipChecker)
    script.see.owns(script.member("a"), of("t0"))
    script.see.owns(script.member("b", group_id="h"), of("t0"))


def test_a_member_that_does_not_know_of_its_eviction_may_still_act() -> None:
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
    with breaks(NO_DOUBLE_OWNERSHIP, "a (A) was removed", "t-0"):
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


def test_a_member_that_missed_the_round_and_shows_its_epoch_knows_it() -> None:
    script = missed_a_round_and_is_converted()
    script.ledgers.groups["g"].note_shown("A", 2)
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


def test_a_partition_is_not_granted_while_it_is_pending_revocation() -> None:
    script = Script(OwnershipChecker)
    script.happens(*consumer(A="t0 t1", B="t2"), granted("A", 2, "t0", pending="t1"))
    with breaks(WITHHOLDING, "which A has"):
        script.happens(granted("B", 3, "t1 t2"))


def test_a_partition_is_granted_once_its_revocation_is_confirmed() -> None:
    script = Script(OwnershipChecker)
    script.happens(*consumer(A="t0 t1", B="t2"), group_epoch(3), granted("A", 2, "t0", pending="t1"))
    script.happens(granted("B", 3, "t2", state=MemberState.UNRELEASED_PARTITIONS))
    script.happens(granted("A", 3, "t0"), granted("B", 3, "t1 t2"))
    assert script.times(WITHHOLDING) == 4


def test_a_member_that_has_to_wait_waits_for_another() -> None:
    """KAFKA-19449: what it gave back itself has no owner."""
    script = Script(OwnershipChecker)
    script.happens(*consumer(A="t0 t1", B=""), group_epoch(3), *target(3, A="t0", B="t1"))
    waits = replace(granted("B", 3, state=MemberState.UNRELEASED_PARTITIONS), cause=RECONCILED)
    script.happens(granted("A", 2, "t0", pending="t1"), waits)
    with breaks(WITHHOLDING, "A waits in epoch 4, and no other has any of the 1 partitions"):
        script.happens(group_epoch(4), *target(4, A="t0 t1", B=""))
        step = granted("A", 4, "t0", state=MemberState.UNRELEASED_PARTITIONS)
        script.happens(replace(step, cause=RECONCILED))


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ({"A": "t0 t1 t2 t3 u0 u1", "B": "t1"}, "is in the targets of A and B"),
        ({"A": "t0 t1 t2 t3 t4 u0 u1", "B": ""}, "does not exist"),
        ({"A": "t0 t1 t2 t3", "B": "u0 u1"}, "in the target of B, which subscribes to ['t']"),
        ({"A": "t0 t1 t3 u0", "B": ""}, "t-2 is in no target"),
    ],
)
def test_a_target_gives_what_exists_to_one_subscriber_each(targets: dict[str, str], words: str) -> None:
    script = Script(TargetChecker)
    script.happens(group_epoch(2), enters("A"), enters("B", "t"))
    with breaks(TARGET_LEGAL, words):
        script.happens(*target(2, **targets))


def test_a_target_may_move_everything_and_follows_its_topics() -> None:
    script = Script(TargetChecker)
    script.happens(group_epoch(2), enters("A"), enters("B", "t"), *target(2, A="t0 u0 u1", B="t1 t2 t3"))
    script.happens(group_epoch(3), *target(3, A="t2 t3 u0 u1", B="t0 t1"))
    script.shard.settings = replace(script.shard.settings, image=FixedTopics([ImageTopic("t", T, 5)]))
    script.happens(group_epoch(4), *target(4, A="t2 t3 t4", B="t0 t1"))
    assert script.times(TARGET_LEGAL) == 3


def test_a_leader_assigns_a_partition_once() -> None:
    script = Script(TargetChecker)
    with breaks(TARGET_LEGAL, "t-1 is assigned to A and to B"):
        script.happens(*classic(A="t0 t1", B="t1"))


def test_a_leader_may_withhold() -> None:
    script = Script(TargetChecker)
    script.happens(*classic(A="t0", B="t2"))
    assert script.times(TARGET_LEGAL) == 2


def test_a_stable_member_has_its_whole_target() -> None:
    script = Script(TargetChecker)
    script.happens(*consumer(A="t0 t1", B=""))
    with breaks(STABLE_MEANS_CONVERGED, "A calls itself STABLE at target epoch 2 without t-1"):
        script.happens(granted("A", 2, "t0"))


def test_a_stable_member_has_nothing_beyond_its_target() -> None:
    script = Script(TargetChecker)
    script.happens(*consumer(A="t0 t1", B=""))
    with breaks(STABLE_MEANS_CONVERGED, "which its target lacks"):
        script.happens(granted("A", 2, "t0 t1 t2"))


def test_who_waits_for_others_does_not_call_itself_stable() -> None:
    script = Script(TargetChecker)
    script.happens(*consumer(A="t0 t1", B=""), granted("A", 2, "t0", state=MemberState.UNRELEASED_PARTITIONS))
    script.happens(granted("A", 2, "t0", pending="t1"), granted("A", 2, "t0 t1"))
    assert script.times(STABLE_MEANS_CONVERGED) == 3


def test_a_stable_member_need_not_have_what_it_no_longer_reads() -> None:
    script = Script(TargetChecker)
    script.happens(*consumer(A="t0 u0"), enters("A", "t"), granted("A", 2, "t0"))


def test_an_instance_that_came_back_with_other_topics_ends_its_generation() -> None:
    """KAFKA-12759."""
    script = Script(TargetChecker)
    before = generation(1, {"A": "t0"}, instances={"A": "i"})
    script.happens(joins("A", "i"), subscribing(before, "t"))
    script.happens(subscribing(generation(1, {"B": "t0"}, instances={"B": "i"}), "t"))
    with breaks(STABLE_MEANS_CONVERGED, "i came back and subscribes to ['t', 'u'], but the assignment is for ['t']"):
        script.happens(subscribing(generation(1, {"C": "t0"}, instances={"C": "i"}), "t", "u"))


def subscribing(event: GroupStored, *topics: str) -> GroupStored:
    """Have the members of a generation subscribe to topics."""
    subscription = encode_subscription(Subscription(topics))
    return replace(event, members=tuple(each._replace(subscription=subscription) for each in event.members))


def script_of_conversions() -> tuple[Script, OwnershipChecker]:
    made: list[OwnershipChecker] = []

    def ownership(ledgers: Ledgers) -> OwnershipChecker:
        made.append(OwnershipChecker(ledgers))
        return made[0]

    def conversions(ledgers: Ledgers) -> ConversionChecker:
        return ConversionChecker(ledgers, made[0])

    return Script(ownership, conversions), made[0]


def convert(*events: Any) -> Script:
    script, _ = script_of_conversions()
    script.happens(*events)
    return script


def test_what_was_assigned_is_owned_in_the_consumer_group() -> None:
    script = convert(*classic(A="t0 t1", B="t2"))
    with breaks(MIGRATION_KEEPS_OWNERS, "became a consumer group of epoch 1: A was assigned", "-1 before"):
        script.happens(*upgraded(1, A="t0", B="t2"))


def test_what_a_member_acts_on_is_owned_in_the_consumer_group() -> None:
    script = convert(*classic(A="t0", B="t2"), gathers(1))
    script.see.owns(script.member("a"), of("t0 t1"))
    with breaks(MIGRATION_KEEPS_OWNERS, "A acts on", "-1 before"):
        script.happens(*upgraded(1, A="t0", B="t2"))


def test_an_upgrade_may_add_partitions_that_members_report() -> None:
    script = convert(*classic(A="t0", B="t2"), gathers(1))
    script.see.owns(script.member("a"), of("t0 t1"))
    script.happens(*upgraded(1, A="t0 t1", B="t2"))
    assert script.times(MIGRATION_KEEPS_OWNERS) == 4


def test_what_was_granted_is_assigned_in_the_classic_generation() -> None:
    script = convert(*consumer(5, A="t0 t1", B="t2"))
    with breaks(MIGRATION_KEEPS_OWNERS, "became a classic group of epoch 5: A was granted"):
        script.happens(*downgraded(5, A="t0", B="t2"))


def test_a_downgrade_retains_what_was_granted() -> None:
    script = convert(*consumer(5, A="t0 t1", B="t2"), *downgraded(5, A="t0 t1", B="t2"))
    assert script.times(MIGRATION_KEEPS_OWNERS) == 2
