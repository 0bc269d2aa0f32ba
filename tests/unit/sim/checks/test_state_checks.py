"""The state of a real shard and its node, sound and damaged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.sim.checks.brokers import Broker
from tests.unit.sim.checks.scripted import breaks

from kohort.group.effects import parked_sync
from kohort.group.events import Assigned, MemberState, OffsetCommitted
from kohort.group.group_timers import session_timer
from kohort.sim.checks.invariants import (
    BOUNDED_MEMORY,
    COUNTS_AGREE,
    EPOCH_MONOTONE,
    EVERY_PARKED_REPLY_ANSWERED,
    LEADER_NEVER_ORPHANED,
    PHASE_FITS,
    STABLE_MEANS_CONVERGED,
    STATIC_SLOT_UNIQUE,
    TARGET_LEGAL,
    WITHHOLDING,
    Invariant,
)
from kohort.sim.checks.state_checks import StateChecker


def native() -> Broker:
    """A consumer group of two."""
    broker = Broker(StateChecker)
    broker.enter("A")
    broker.enter("B")
    return broker


def classic() -> Broker:
    """A classic group of two: one joins, and waits until the other has joined again."""
    broker = Broker(StateChecker)
    broker.join("A")
    broker.sync("A", "A")
    broker.join("B")
    return broker


def test_a_group_in_any_phase_is_valid() -> None:
    for broker in (native(), classic()):
        broker.observer.ended()
        assert all(times for times in broker.checker.checked.values())


def _twice(broker: Broker) -> None:
    member = broker.consumer_group.members["B"]
    member.assigned = (Assigned(broker.topic_id, (0, 1, 2, 3), (2, 2, 2, 2)),)


def _wanted_twice(broker: Broker) -> None:
    for member in broker.consumer_group.members.values():
        member.target = ((broker.topic_id, (0,)),)


def _ahead(broker: Broker) -> None:
    broker.consumer_group.members["A"].epoch = 99


def _settled(broker: Broker) -> None:
    group = broker.consumer_group
    group.unsettled = set(group.members) - group.unsettled


def _pending(broker: Broker) -> None:
    broker.consumer_group.members["A"].state = MemberState.UNREVOKED_PARTITIONS


def _instance(broker: Broker) -> None:
    broker.consumer_group.static_members["i"] = "A"


def _subscribers(broker: Broker) -> None:
    broker.consumer_group.subscribers["t"] = 7


def _session(broker: Broker) -> None:
    broker.node.timers.disarm(session_timer("g", "A"))


def _timers(broker: Broker) -> None:
    for number in range(200):
        broker.node.timers.arm(("leak", number), broker.now_ms + 9_000, lambda _: None)


def _offsets(broker: Broker) -> None:
    for number in range(99):
        broker.shard.offsets.setdefault("g", {})[f"gone{number}", 0] = OffsetCommitted(
            "g", f"gone{number}", 0, 1, -1, "", 0
        )


@pytest.mark.parametrize(
    ("damage", "invariant", "words"),
    [
        (_offsets, BOUNDED_MEMORY, "g: 99 commits are stored"),
        (_twice, WITHHOLDING, "is both A's and B's"),
        (_wanted_twice, TARGET_LEGAL, "in the target"),
        (_ahead, EPOCH_MONOTONE, "A at epoch 99"),
        (_settled, STABLE_MEANS_CONVERGED, "unsettled"),
        (_pending, PHASE_FITS, "A is UNREVOKED_PARTITIONS with 0 topics to give back"),
        (_instance, STATIC_SLOT_UNIQUE, "static_members"),
        (_subscribers, COUNTS_AGREE, "subscribers"),
        (_session, EVERY_PARKED_REPLY_ANSWERED, "nothing ends a wait"),
        (_timers, BOUNDED_MEMORY, "timers for 2 members of 1 groups"),
    ],
)
def test_damage_to_a_consumer_group_is_seen(damage: Callable[[Broker], None], invariant: Invariant, words: str) -> None:
    broker = native()
    damage(broker)
    with breaks(invariant, words):
        broker.observer.ended()


def test_commits_that_were_to_precede_the_partitions_of_a_topic_that_could_not_grow_are_no_leak() -> None:
    broker = native()
    _offsets(broker)
    broker.observer.fault("grow topic", "t", "by=99")
    broker.observer.ended()


def _leader(broker: Broker) -> None:
    broker.classic_group.leader = "Z"


def _waits(broker: Broker) -> None:
    broker.classic_group.awaiting_join.clear()


def _remembered(broker: Broker) -> None:
    runtime = broker.node.coordinator.runtime
    runtime.parked[parked_sync("g", "Z")] = lambda _: None


@pytest.mark.parametrize(
    ("damage", "invariant", "words"),
    [
        (_leader, LEADER_NEVER_ORPHANED, "leader Z is no member"),
        (_waits, EVERY_PARKED_REPLY_ANSWERED, "wait for nothing"),
        (_remembered, EVERY_PARKED_REPLY_ANSWERED, "'Z')] wait for nothing"),
    ],
)
def test_damage_to_a_classic_group_is_seen(damage: Callable[[Broker], None], invariant: Invariant, words: str) -> None:
    broker = classic()
    damage(broker)
    with breaks(invariant, words):
        broker.observer.ended()
