"""Targets that can be, and members that have reached them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.sim.checks.scripted import (
    Script,
    T,
    breaks,
    classic,
    consumer,
    enters,
    generation,
    granted,
    group_epoch,
    joins,
    target,
)

from kohort.group.events import GroupStored, MemberState
from kohort.group.image import FixedTopics, ImageTopic
from kohort.group.invariants import STABLE_MEANS_CONVERGED, TARGET_LEGAL
from kohort.model.subscription import Subscription
from kohort.sim.checks.target_checks import TargetChecker
from kohort.wire.consumer_protocol import encode_subscription


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
    with breaks(STABLE_MEANS_CONVERGED, "which its target does not hold"):
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
    script.happens(joins("A", "i"), wanting(before, "t"))
    script.happens(wanting(generation(1, {"B": "t0"}, instances={"B": "i"}), "t"))
    with breaks(STABLE_MEANS_CONVERGED, "i came back and wants ['t', 'u'] where it was assigned for ['t']"):
        script.happens(wanting(generation(1, {"C": "t0"}, instances={"C": "i"}), "t", "u"))


def wanting(event: GroupStored, *topics: str) -> GroupStored:
    """Have the members of a generation want topics."""
    said = encode_subscription(Subscription(topics))
    return replace(event, members=tuple(each._replace(subscription=said) for each in event.members))
