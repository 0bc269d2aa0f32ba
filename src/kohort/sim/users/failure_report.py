"""The story of a failed world for the user whose program broke it: faults, callbacks, records and commits.

Where one record is in question only its partition's lines are kept. The columns are those of `sim/trace`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kohort.member.effects import Callback
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observer, SeenMember, SeenNode
from kohort.sim.trace import show_partitions

SHOWN = 30
"""How many lines are shown at most."""

_RECORD = re.compile(r"(\S+)-(\d+)@(\d+)")


class Line(NamedTuple):
    """One thing that happened; `partitions` are those it concerns, None where it concerns all."""

    at_us: int
    text: str
    partitions: frozenset[TopicPartition] | None = None
    first: int = 0
    next_offset: int = 1 << 62


class Story(Observer):
    """Keeps the lines of a story."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.is_over = False
        """Whether the world is taken apart: lines from here on are dropped."""
        self._scheduler: Scheduler | None = None
        self._commits: dict[tuple[str, int], Mapping[TopicPartition, int]] = {}

    def began(self, scheduler: Scheduler) -> None:
        """Take the clock of the world."""
        self._scheduler = scheduler

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
        at_us = 0 if self._scheduler is None else self._scheduler.now_us
        text = f"{at_us / 1_000_000:>11.6f}  {who:<6} {what:<9} {rest}".rstrip()
        self.lines.append(Line(at_us, text, None if partitions is None else frozenset(partitions), first, next_offset))

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

    def fault(self, name: str, subject: str, detail: str) -> None:
        self.put("world", "fault", f"{name} {subject} {detail}")

    def healed(self) -> None:
        self.put("world", "healed")

    def node_started(self, node: SeenNode) -> None:
        self.put(node.name, "started")

    def node_stopped(self, node: SeenNode, how: str) -> None:
        self.put(node.name, "stopped", how)

    def member_started(self, member: SeenMember) -> None:
        self.put(member.name, "started", f"{member.group_id} {member.kind}")

    def member_ended(self, member: SeenMember, how: str) -> None:
        self.put(member.name, "ended", how)

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

    def commit_answered(
        self,
        member: SeenMember,
        number: int,
        offsets: Mapping[TopicPartition, int],
        errors: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        del number
        for partition, offset in sorted(offsets.items()):
            code = errors.get(partition, ErrorCode.NONE)
            outcome = "" if code is ErrorCode.NONE else f" {code.name}"
            self.put(member.name, "commits", f"{partition} {offset}{outcome}", [partition], 0, offset)


def _concerns(line: Line, partition: TopicPartition, offset: int) -> bool:
    if line.partitions is None:
        return True
    return partition in line.partitions and line.first <= offset < line.next_offset
