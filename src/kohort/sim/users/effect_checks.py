"""Effects of a user's program: each record takes effect, and none of a partition that the program had released.

A program reports when a record has taken effect (`World.done`); one that reports nothing is not checked. A record
may take effect twice. It may not be left out because it was committed before, nor come so late that its partition had
been released by a callback: the next owner reads it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kohort.group.events import Event, OffsetCommitted
from kohort.group.shard import Shard
from kohort.member.effects import Callback
from kohort.member.member_state import Identity
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.invariants import AT_LEAST_ONCE, NO_DOUBLE_OWNERSHIP
from kohort.sim.kernel.world_observer import SeenMember, SeenNode


class RecordMoment(NamedTuple):
    """Something that happened to records of a partition: from `first` up to, without, `next_offset`."""

    at_us: int
    first: int
    next_offset: int
    text: str


class EffectChecker(Checker):
    """AtLeastOnce by what takes effect, NoDoubleOwnership by when it does."""

    invariants = (AT_LEAST_ONCE, NO_DOUBLE_OWNERSHIP)

    def __init__(self) -> None:
        super().__init__()
        self.done: dict[TopicPartition, list[int]] = {}
        """Offsets in the order in which they took effect."""
        self._seen: dict[TopicPartition, set[int]] = {}
        self._moments: dict[TopicPartition, list[RecordMoment]] = {}
        self._floors: dict[TopicPartition, int] = {}
        """The least offset from which any member began."""
        self._delivered: dict[str, dict[TopicPartition, list[tuple[int, int]]]] = {}
        """By program, the records delivered to it of partitions that it has not released since."""
        self._released: dict[tuple[str, TopicPartition], tuple[int, str]] = {}
        self._names: dict[str, str] = {}
        """Members' names by id."""

    # -- what programs do

    def effect(self, program: str, partition: TopicPartition, offset: int) -> None:
        """See a record take effect."""
        self.done.setdefault(partition, []).append(offset)
        self._seen.setdefault(partition, set()).add(offset)
        self.count(AT_LEAST_ONCE)
        released = self._released.get((program, partition))
        ranges = self._delivered.get(program, {}).get(partition, ())
        if released is None or any(first <= offset < end for first, end in ranges):
            return
        at_us, how = released
        ago_s = (self.now_us - at_us) / 1_000_000
        self.broken(
            NO_DOUBLE_OWNERSHIP,
            f"{program} works on {partition}@{offset}, which it has released: {how} {ago_s:.3f} s ago",
        )

    # -- what members see

    def position(self, member: SeenMember, partition: TopicPartition, offset: int, why: str) -> None:
        """Note from where the group reads."""
        self._floors[partition] = min(offset, self._floors.get(partition, offset))

    def delivered(self, member: SeenMember, partition: TopicPartition, first: int, next_offset: int) -> None:
        """Note what a program has in its hands."""
        delivered = self._delivered.setdefault(program_of(member), {})
        delivered.setdefault(partition, []).append((first, next_offset))
        self._note(partition, first, next_offset, f"{member.name} was handed it")

    def callback_ended(self, member: SeenMember, callback: Callback, partitions: Partitions, error: str | None) -> None:
        """Note partitions that a program has released."""
        if callback is Callback.ASSIGNED:
            return
        raised = "" if error is None else f", which raised {error}"
        for partition in sorted(partitions):
            self._release(member, partition, f"its on_partitions_{callback} returned{raised}")

    def member_ended(self, member: SeenMember, how: str) -> None:
        """A closed consumer has released everything; a killed process works on nothing."""
        program = program_of(member)
        if how != "closed":
            for partition in sorted(self._delivered.get(program, ())):
                self._note(partition, 0, 1 << 62, f"{program} was {how}" if how == "killed" else f"{program} {how}")
            self._delivered.pop(program, None)
            for key in [key for key in self._released if key[0] == program]:
                del self._released[key]
            return
        for partition in sorted(self._delivered.get(program, ())):
            self._release(member, partition, "its consumer was closed")

    def _release(self, member: SeenMember, partition: TopicPartition, how: str) -> None:
        program = program_of(member)
        ranges = self._delivered.get(program, {}).pop(partition, [])
        self._released[program, partition] = (self.now_us, how)
        for first, end in ranges:
            self._note(partition, first, end, f"{program} released the partition ({how})")

    # -- commits

    def commit_shows(self, member: SeenMember, number: int, identity: Identity) -> None:
        self._names[identity.member_id] = member.name

    def member_moved(self, member: SeenMember, state: str, cause: str) -> None:
        self._names[member.identity.member_id] = member.name

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        """Note a commit and its member."""
        if isinstance(event, OffsetCommitted):
            name = self._names.get(event.member_id, event.member_id or "a client outside of the group")
            partition = TopicPartition(event.topic, event.partition)
            self._note(partition, 0, event.offset, f"{name} committed {event.offset}")

    # -- the end

    def missing(self, ends: dict[TopicPartition, int]) -> Iterator[tuple[TopicPartition, int]]:
        """Yield the offsets before these ends that have not taken effect, if programs report that at all."""
        for partition, end in sorted(ends.items()) if self.done else ():
            seen = self._seen.get(partition, set())
            for offset in range(self._floors.get(partition, end), end):
                if offset not in seen:
                    yield partition, offset

    def describe_missing(self, partition: TopicPartition, offset: int) -> str:
        """Return the course of a record that took no effect, in a sentence."""
        course: list[str] = []
        for moment in self._moments.get(partition, ()):
            if moment.first <= offset < moment.next_offset:
                is_commit = " committed " in moment.text
                if is_commit and any(" committed " in each for each in course):
                    continue
                course.append(f"{moment.text} at {moment.at_us / 1_000_000:.3f} s")
        shown = course if len(course) <= _SHOWN else [*course[: _SHOWN - 1], "…", course[-1]]
        return f"{partition}@{offset} never took effect: " + (", ".join(shown) or "it was never delivered")

    def _note(self, partition: TopicPartition, first: int, next_offset: int, text: str) -> None:
        self._moments.setdefault(partition, []).append(RecordMoment(self.now_us, first, next_offset, text))


_SHOWN = 8


def program_of(member: SeenMember) -> str:
    """Return the name of the program that a member is part of."""
    return member.name.partition(".")[0]
