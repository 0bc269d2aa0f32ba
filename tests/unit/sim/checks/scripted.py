"""A world that a test writes down, event by event, with the checkers that look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.unit.group.fixed_topics import FixedTopics

from kohort.group.commands import Join
from kohort.group.coordinator_settings import ImageTopic
from kohort.group.events import (
    Assigned,
    ClassicMemberMetadata,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    Event,
    GroupConverted,
    GroupDeleted,
    GroupStored,
    MemberAdded,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberRejoined,
    MemberRemoved,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    OffsetCommitted,
    RoundOpened,
    StaticMemberReplaced,
    StoredMember,
    TargetStored,
)
from kohort.group.shard import Shard
from kohort.member.member_state import Identity
from kohort.model.assignment import Assignment, IdPartitions, Partitions, id_partitions
from kohort.model.cause import Cause, CauseKind
from kohort.model.ids import TopicPartition
from kohort.node.configuration.config import Config
from kohort.node.groups.settings_from_config import group_settings
from kohort.sim.checks.checker import Checker, InvariantBroken
from kohort.sim.checks.group_ledger import Ledgers
from kohort.sim.checks.invariants import Invariant
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observers
from kohort.wire.consumer_protocol import encode_assignment

T, U = b"T" * 16, b"U" * 16
TOPICS = (ImageTopic("t", T, 4), ImageTopic("u", U, 2))
WHY = Cause(CauseKind.MEMBER_JOINED, 0)
NODE: Any = None
"""No checker of events asks which node they happened on."""


@dataclass
class Member:
    """A member as observers know it."""

    name: str
    member_id: str = ""
    epoch: int = -1
    kind: str = "consumer"
    group_id: str = "g"
    instance_id: str | None = None
    early_tasks: frozenset[Any] = frozenset()

    @property
    def identity(self) -> Identity:
        return Identity(self.epoch, self.member_id)

    def is_now(self, epoch: int, member_id: str | None = None) -> Member:
        self.epoch, self.member_id = epoch, self.member_id if member_id is None else member_id
        return self


class Script:
    """Reports events to checkers; `see` is the observer of the world."""

    def __init__(self, *make: Callable[[Ledgers], Checker]) -> None:
        self.scheduler = Scheduler()
        self.shard = Shard(group_settings(Config(), FixedTopics(TOPICS)))
        self.ledgers = Ledgers()
        self.checkers = [made(self.ledgers) for made in make]
        self.see = Observers([self.ledgers, *self.checkers])
        self.see.began(self.scheduler)

    def happens(self, *events: Event) -> None:
        for event in events:
            self.see.group_event(NODE, self.shard, event, 0)

    def member(self, name: str, member_id: str = "", epoch: int = -1, **changes: Any) -> Member:
        member = Member(name, member_id or name.upper(), epoch, **changes)
        self.see.member_started(member)
        return member

    def times(self, invariant: Invariant) -> int:
        """How often something was compared."""
        return sum(checker.checked.get(invariant.name, 0) for checker in self.checkers)


def breaks(invariant: Invariant, *words: str) -> AbstractContextManager[Any]:
    """Expect that what follows breaks an invariant, with these words in the sentence."""

    class Expecting(AbstractContextManager[Any]):
        def __enter__(self) -> None:
            self.raises = pytest.raises(InvariantBroken)
            self.caught = self.raises.__enter__()

        def __exit__(self, *error: Any) -> bool:
            is_expected = bool(self.raises.__exit__(*error))
            violation = self.caught.value
            assert violation.invariant is invariant, str(violation)
            for word in words:
                assert word in violation.sentence, violation.sentence
            return is_expected

    return Expecting()


# -- partitions


def of(text: str) -> Partitions:
    """Return the partitions of `t0 t1 u0`."""
    return frozenset(TopicPartition(word[0], int(word[1:])) for word in text.split())


def ids(text: str) -> IdPartitions:
    """Return them by topic id."""
    return id_partitions((T if word[0] == "t" else U, (int(word[1:]),)) for word in text.split())


def held(text: str, epoch: int) -> tuple[Assigned, ...]:
    """Return them as granted in an epoch."""
    return tuple(Assigned(topic_id, numbers, (epoch,) * len(numbers)) for topic_id, numbers in ids(text))


# -- a classic group


def generation(
    number: int, members: Mapping[str, str | None] | Iterable[str], *, leader: str | None = "", **changes: Any
) -> GroupStored:
    """Return a stored generation; without assignments it awaits them. `members` are ids, with what each is assigned."""
    assigned = members if isinstance(members, Mapping) else dict.fromkeys(members)
    instances = changes.pop("instances", {})
    stored = tuple(
        StoredMember(
            member_id, instances.get(member_id), "c", "/h", 9_000, 9_000, b"",
            b"" if text is None else encode_assignment(Assignment(of(text))),
        )
        for member_id, text in assigned.items()
    )  # fmt: skip
    is_synced = changes.pop("is_synced", isinstance(members, Mapping) or not assigned)
    first = next(iter(assigned), None)
    return GroupStored(
        "g", "consumer", number, "range", first if leader == "" else leader, 0, stored, WHY, is_synced, **changes
    )


def request(member_id: str, instance_id: str | None = None) -> Join:
    return Join("g", member_id, instance_id, "c", "/h", 9_000, 9_000, "consumer", (), member_id)


def joins(member_id: str, instance_id: str | None = None) -> MemberAdded:
    return MemberAdded("g", member_id, request(member_id, instance_id), WHY)


def rejoins(member_id: str) -> MemberRejoined:
    return MemberRejoined("g", member_id, request(member_id), WHY)


def goes(member_id: str, instance_id: str | None = None) -> MemberRemoved:
    return MemberRemoved("g", member_id, instance_id, WHY)


def gathers(number: int) -> RoundOpened:
    return RoundOpened("g", number, False, 0, 0, WHY)


def replaced(old_id: str, new_id: str, instance_id: str = "i", *, awaits_join: bool = True) -> StaticMemberReplaced:
    return StaticMemberReplaced("g", new_id, request(new_id, instance_id), WHY, old_id, awaits_join)


def classic(*member_ids: str, number: int = 1, **assigned: str) -> list[Event]:
    """Return how a group comes to a generation: all join, it is stored, its leader assigns."""
    everyone = (*member_ids, *assigned)
    shares: dict[str, str | None] = {**dict.fromkeys(member_ids, ""), **assigned}
    return [*(joins(each) for each in everyone), generation(number, everyone), generation(number, shares)]


# -- a consumer group


def group_epoch(number: int) -> ConsumerGroupStored:
    return ConsumerGroupStored("g", number, 0, WHY)


def enters(member_id: str, *names: str, instance_id: str | None = None, is_classic: bool = False) -> Event:
    metadata = ClassicMemberMetadata(9_000, ()) if is_classic else None
    return ConsumerMemberStored(
        "g", member_id, instance_id, None, "c", "/h", names or ("t", "u"), "", 9_000, None, metadata, WHY
    )


def target(epoch: int, at_ms: int = 1, **targets: str) -> list[Event]:
    """Return a new target, by member id."""
    parts: list[Event] = [MemberTargetStored("g", member_id, ids(text), WHY) for member_id, text in targets.items()]
    return [*parts, TargetStored("g", epoch, at_ms, WHY)]


def granted(
    member_id: str, epoch: int, text: str = "", *, pending: str = "", state: MemberState | None = None
) -> MemberAssignmentStored:
    shown = state or (MemberState.UNREVOKED_PARTITIONS if pending else MemberState.STABLE)
    return MemberAssignmentStored("g", member_id, epoch, epoch - 1, shown, held(text, epoch), held(pending, epoch), WHY)


def out(member_id: str) -> list[Event]:
    """Return how a member goes from a consumer group."""
    return [
        MemberAssignmentDeleted("g", member_id, WHY),
        MemberTargetDeleted("g", member_id, WHY),
        ConsumerMemberDeleted("g", member_id, WHY),
    ]


def consumer(epoch: int = 2, **granted_to: str) -> list[Event]:
    """Return how a group comes to an epoch in which all have their targets."""
    return [
        group_epoch(epoch),
        *(enters(member_id) for member_id in granted_to),
        *target(epoch, 0, **granted_to),
        *(granted(member_id, epoch, text) for member_id, text in granted_to.items()),
    ]


def upgraded(epoch: int, **granted_to: str) -> list[Event]:
    """Return how a classic group becomes a consumer group of these classic members."""
    return [
        GroupDeleted("g", WHY),
        *(enters(member_id, is_classic=True) for member_id in granted_to),
        group_epoch(epoch),
        *target(epoch, 0, **granted_to),
        *(granted(member_id, epoch, text) for member_id, text in granted_to.items()),
        GroupConverted("g", True, epoch, tuple(granted_to), WHY),
    ]


def downgraded(epoch: int, **assigned: str) -> list[Event]:
    """Return how a consumer group becomes a classic group."""
    return [
        *(MemberAssignmentDeleted("g", member_id, WHY) for member_id in assigned),
        *(ConsumerMemberDeleted("g", member_id, WHY) for member_id in assigned),
        ConsumerGroupDeleted("g", WHY),
        generation(epoch, dict(assigned), leader=None),
        GroupConverted("g", False, epoch, tuple(assigned), WHY),
    ]


def commit(member_id: str, offset: int, partition: str = "t0") -> OffsetCommitted:
    return OffsetCommitted(
        "g", partition[0], int(partition[1:]), offset, -1, "", 0, -1, T if partition[0] == "t" else U, member_id
    )
