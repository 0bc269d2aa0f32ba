"""The trace of a world: one line for each thing seen, in fixed columns, the same bytes for one seed and commit.

Columns: the time of the world in seconds, the number of the scheduler's event, who, what, and the rest. The short form
shows transitions only: ownership, states and faults; docs/guide/simulation.md has the legend. A trace is for the
user whose program broke a world: where one record is in question it has the lines of its partition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kohort.group.events import Event
from kohort.group.shard import Shard
from kohort.member.effects import Callback
from kohort.model.assignment import Partitions
from kohort.model.cause import Cause
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.streams_tasks import TasksByRole, by_subtopology
from kohort.node.groups.offsets_partition import OffsetsPartition
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Errors, Observer, Offsets, SeenMember, SeenNode, TimedObserver

HEADINGS = f"{'TIME':>11} {'EVENT':>7}  {'WHO':<5} {'WHAT':<10} REST"
CHANGES = frozenset({
    "GroupStored", "GroupDeleted", "ConsumerGroupStored", "ConsumerGroupDeleted", "TargetStored", "MemberRemoved",
    "ConsumerMemberDeleted", "StaticMemberReplaced", "RoundOpened", "GroupLoaded", "GroupUnloaded",
    "StreamsGroupStored", "StreamsGroupDeleted", "StreamsTargetStored", "StreamsMemberDeleted",
})  # fmt: skip
"""The events of a group that the short form shows."""
SETTLED = frozenset({"stable", "fenced", "stale", "fatal", "unjoined", "unsubscribed"})
"""The states of members that the short form shows."""
_NUMBERS = ("generation", "epoch", "member_epoch", "offset", "partition", "phase", "state")
_WORDS = ("member_id", "instance_id", "leader", "topic", "protocol_name")


class _Lines(TimedObserver):
    """Writes the lines that every trace has."""

    def put(self, who: str, what: str, rest: str = "") -> None:
        """Write one line."""
        raise NotImplementedError

    def fault(self, name: str, subject: str, detail: str) -> None:
        self.put("world", "fault", f"{name} {subject} {detail}")

    def healed(self) -> None:
        self.put("world", "healed")

    def node_started(self, node: SeenNode) -> None:
        self.put(node.name, "started")

    def node_stopped(self, node: SeenNode, how: str) -> None:
        self.put(node.name, "stopped", how)

    def member_ended(self, member: SeenMember, how: str) -> None:
        self.put(member.name, "ended", how)


class Trace(_Lines):
    """Writes what it sees, a line at a time."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def began(self, scheduler: Scheduler) -> None:
        super().began(scheduler)
        self._write(HEADINGS)

    def put(self, who: str, what: str, rest: str = "") -> None:
        """Write one line."""
        scheduler = self._scheduler
        assert scheduler is not None, "a world begins before anything happens in it"
        line = f"{scheduler.now_us / 1_000_000:>11.6f} {scheduler.events:>7}  {who:<5} {what:<10} {rest}"
        self._write(line.rstrip())

    # -- the world

    def ended(self) -> None:
        self.put("world", "ended")

    # -- nodes

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        groups = ",".join(sorted(hosted.shard.groups))
        self.put(node.name, "loaded", f"{hosted.partition.directory} {hosted.status.value} {groups}")

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        self.put(node.name, "group", show_event(event))

    # -- members

    def member_started(self, member: SeenMember) -> None:
        slot = "" if member.instance_id is None else f" instance={member.instance_id}"
        self.put(member.name, "started", f"{member.group_id} {member.kind}{slot}")

    def member_moved(self, member: SeenMember, state: str, cause: str) -> None:
        identity = member.identity
        self.put(member.name, "state", f"{state} {identity.generation}/{shorten(identity.member_id)} {cause}")

    def callback_began(self, member: SeenMember, callback: Callback, partitions: Partitions, cause: str) -> None:
        self.put(member.name, "callback", f"{callback.value} {show_partitions(partitions)} {cause}")

    def callback_ended(self, member: SeenMember, callback: Callback, partitions: Partitions, error: str | None) -> None:
        rest = "" if error is None else f" failed: {error}"
        self.put(member.name, "returned", f"{callback.value} {show_partitions(partitions)}{rest}")

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        self.put(member.name, "owns", show_partitions(partitions))

    def runs(self, member: SeenMember, tasks: TasksByRole) -> None:
        self.put(member.name, "runs", show_tasks(tasks))

    def delivered(self, member: SeenMember, partition: TopicPartition, first: int, next_offset: int) -> None:
        self.put(member.name, "reads", f"{partition} {first}..{next_offset - 1}")

    def position(self, member: SeenMember, partition: TopicPartition, offset: int, why: str) -> None:
        self.put(member.name, "position", f"{partition} {offset} {why}")

    def commit_sent(self, member: SeenMember, number: int, offsets: Offsets) -> None:
        self.put(member.name, "commits", f"#{number} {_show_offsets(offsets)}")

    def commit_answered(self, member: SeenMember, number: int, offsets: Offsets, errors: Errors) -> None:
        bad = [f"{partition}={error.name}" for partition, error in sorted(errors.items()) if error]
        self.put(member.name, "committed", f"#{number} {' '.join(bad) or 'NONE'}")

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        self.put(member.name, "asks", f"{request} {detail}")

    def answered(self, member: SeenMember, request: str, error: ErrorCode, detail: str) -> None:
        self.put(member.name, "answer", f"{request} {error.name} {detail}")

    def produced(self, partition: TopicPartition, offset: int, count: int) -> None:
        self.put("feed", "wrote", f"{partition} {offset}..{offset + count - 1}")

    # -- transactions

    def producer_identified(self, producer: str, producer_id: int, epoch: int) -> None:
        self.put(producer, "identity", f"{producer_id}/{epoch}")

    def producer_ended(self, producer: str, why: str) -> None:
        self.put(producer, "ended", f"failed: {why}")

    def transaction_began(self, producer: str, number: int, records: int) -> None:
        self.put(producer, "begins", f"{number} of {records} records")

    def transaction_wrote(self, producer: str, number: int, partition: TopicPartition, offset: int) -> None:
        self.put(producer, "wrote", f"{number} {partition}@{offset}")

    def transaction_ending(self, producer: str, number: int, is_commit: bool) -> None:
        self.put(producer, "commits" if is_commit else "aborts", f"{number}")

    def transaction_ended(self, producer: str, number: int, is_commit: bool) -> None:
        self.put(producer, "committed" if is_commit else "aborted", f"{number}")

    def transaction_offset_found(self, producer: str, number: int, asked_us: int) -> None:
        found = f"transaction {number}" if number >= 0 else "no transaction"
        self.put(producer, "position", f"{found}, asked for at {asked_us / 1_000_000:.6f}")

    def committed_read(
        self, partition: TopicPartition, values: Sequence[tuple[int, bytes]], next_offset: int, stable_offset: int
    ) -> None:
        if values:
            read = " ".join(f"{offset}={value.decode()}" for offset, value in values)
            self.put("audit", "reads", f"{partition} {read} of {stable_offset}")


class ShortTrace(Trace):
    """Writes transitions only: who has what, how members and groups stand, and what befalls them."""

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        if type(event).__name__ in CHANGES:
            super().group_event(node, shard, event, now_ms)

    def member_moved(self, member: SeenMember, state: str, cause: str) -> None:
        if state in SETTLED:
            super().member_moved(member, state, cause)

    # What the long form shows beside these is no transition: as in the base class, it is not observed.
    shard_loaded = Observer.shard_loaded
    callback_began = Observer.callback_began
    callback_ended = Observer.callback_ended
    delivered = Observer.delivered
    position = Observer.position
    commit_sent = Observer.commit_sent
    commit_answered = Observer.commit_answered
    asked = Observer.asked
    answered = Observer.answered
    produced = Observer.produced
    transaction_began = Observer.transaction_began
    transaction_wrote = Observer.transaction_wrote
    transaction_ending = Observer.transaction_ending
    transaction_offset_found = Observer.transaction_offset_found
    committed_read = Observer.committed_read


# Showing values


def show_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as `t:0,1 u:3`, or `-` for none."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    return " ".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in by_topic.items()) or "-"


def show_tasks(tasks: TasksByRole) -> str:
    """Return tasks as `active 0:1,2 standby 1:0`, or `-` for none."""
    shown = []
    for name, of_role in zip(("active", "standby", "warmup"), tasks, strict=True):
        if of_role:
            ids = [f"{key}:{','.join(map(str, numbers))}" for key, numbers in by_subtopology(of_role).items()]
            shown.append(f"{name} {' '.join(ids)}")
    return " ".join(shown) or "-"


def show_event(event: Event) -> str:
    """Return an event of a group in words: its name, its numbers and ids, and its cause."""
    parts = [re.sub(r"(?<!^)(?=[A-Z])", " ", type(event).__name__).lower(), f"{event.group_id}"]
    for name in (*_NUMBERS, *_WORDS):
        value = getattr(event, name, None)
        if value is None or value == "":
            continue
        shown = shorten(value) if isinstance(value, str) else f"{int(value)}"
        parts.append(f"{name}={shown}")
    cause = getattr(event, "cause", None)
    if isinstance(cause, Cause):
        parts.append(f"({cause.kind.value}{': ' + cause.detail if cause.detail else ''})")
    return " ".join(parts)


def shorten(member_id: str) -> str:
    """Return a member id that fits a line: its beginning is the client's, its end differs by member."""
    return member_id if len(member_id) <= 16 else f"{member_id[:7]}…{member_id[-6:]}"


def _show_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    return " ".join(f"{partition}={offset}" for partition, offset in sorted(offsets.items()))


SHOWN = 30
"""How many lines are shown at most."""

_RECORD = re.compile(r"(\S+)-(\d+)@(\d+)")


class Line(NamedTuple):
    """One thing that happened; `partitions` are those it concerns, None where it concerns all."""

    text: str
    partitions: frozenset[TopicPartition] | None = None
    first: int = 0
    next_offset: int = 1 << 62


class RecordedTrace(_Lines):
    """Collects the lines of a trace."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.is_over = False
        """Whether the world is taken apart: lines from here on are dropped."""

    def put(
        self,
        who: str,
        what: str,
        rest: str = "",
        partitions: Iterable[TopicPartition] | None = None,
        first: int = 0,
        next_offset: int = 1 << 62,
    ) -> None:
        """Add a line."""
        if self.is_over:
            return
        text = f"{self.now_us / 1_000_000:>11.6f}  {who:<6} {what:<9} {rest}".rstrip()
        self.lines.append(Line(text, None if partitions is None else frozenset(partitions), first, next_offset))

    def lines_about(self, sentence: str) -> list[str]:
        """Return the lines that concern what a sentence speaks of, at most so many."""
        found = _RECORD.search(sentence)
        lines = self.lines
        if found is not None:
            partition, offset = TopicPartition(found[1], int(found[2])), int(found[3])
            lines = [line for line in lines if _concerns(line, partition, offset)]
        texts = [line.text for line in lines]
        if len(texts) <= SHOWN:
            return texts
        if found is None:
            return ["        …", *texts[-SHOWN:]]
        return [*texts[: SHOWN // 2], "        …", *texts[-SHOWN // 2 :]]

    # -- what is seen

    def member_started(self, member: SeenMember) -> None:
        self.put(member.name, "started", f"{member.group_id} {member.kind}")

    def callback_began(self, member: SeenMember, callback: Callback, partitions: Partitions, cause: str) -> None:
        text = f"on_partitions_{callback.value}({show_partitions(partitions)}) begins: {cause}"
        self.put(member.name, "callback", text, partitions)

    def callback_ended(self, member: SeenMember, callback: Callback, partitions: Partitions, error: str | None) -> None:
        text = f"on_partitions_{callback.value} returned" if error is None else f"raised {error}"
        self.put(member.name, "callback", text, partitions)

    def position(self, member: SeenMember, partition: TopicPartition, offset: int, why: str) -> None:
        self.put(member.name, "position", f"{partition} {offset} {why}", [partition])

    def delivered(self, member: SeenMember, partition: TopicPartition, first: int, next_offset: int) -> None:
        self.put(member.name, "reads", f"{partition} {first}..{next_offset - 1}", [partition], first, next_offset)

    def commit_answered(self, member: SeenMember, number: int, offsets: Offsets, errors: Errors) -> None:
        for partition, offset in sorted(offsets.items()):
            code = errors.get(partition, ErrorCode.NONE)
            outcome = "" if code is ErrorCode.NONE else f" {code.name}"
            self.put(member.name, "commits", f"{partition} {offset}{outcome}", [partition], 0, offset)


def _concerns(line: Line, partition: TopicPartition, offset: int) -> bool:
    if line.partitions is None:
        return True
    return partition in line.partitions and line.first <= offset < line.next_offset
