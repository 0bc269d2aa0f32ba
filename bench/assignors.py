"""Our assignors beside Kafka's Java ones: the time of assign(), the balance it reaches, and what it moves.

python -m bench.assignors [--read] [--quick] [SIZE ...]     SIZE is MEMBERSxTOPICSxPARTITIONS

Ours and a warm JVM take turns on the same groups: `full`, without owned partitions, and `join`, in which one
member comes to the group that owns what `full` gave it. Our assignments make their partition objects when they are
read; with --read their time is counted as well. Times are CPU time of the calling thread, so that other work
on the machine changes little; the JVM's collector and compiler have threads of their own and cost it nothing here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.java_lines import JavaLines

from bench.result import Aim, Outcome, Result, line
from kohort.assign import (
    Assignor,
    CooperativeStickyAssignor,
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    StickyAssignor,
    TopicSpec,
)
from kohort.assign.quality import Quality, measure
from kohort.assign.user_data import encode_sticky
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription

SIZES = ("100x10x50", "1000x100x10", "1000x1000x10", "10000x100x50")
ASSIGNORS: tuple[type[Assignor], ...] = (RangeAssignor, StickyAssignor, CooperativeStickyAssignor)
KINDS = ("homogeneous", "heterogeneous")
PEER = "Kafka's, in a warm JVM"
GENERAL = "1000x1000x10"
"""The size at which the aim of the general case stands."""


class Java:
    """Kafka's assignors in one JVM. Raises `Unavailable` when it cannot be had."""

    def __init__(self) -> None:
        self._lines = JavaLines("Assignors", Path(__file__).resolve().parent / "java", heap="2g")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()

    def ask(self, line: str) -> str:
        """Send one line and return the answer."""
        return self._lines.ask(line)

    def times_ms(self, budget_ms: int) -> list[float]:
        """Call assign() for so long, at least once."""
        return [float(each) for each in self.ask(f"time {budget_ms}").split()]

    def result(self) -> dict[str, Assignment]:
        """Return what the last call assigned."""
        found = {}
        for each in self.ask("result").split():
            member, _, held = each.partition(":")
            names = (name.rpartition("-") for name in held.split(",") if name)
            found[member] = Assignment(frozenset(TopicPartition(topic, int(number)) for topic, _, number in names))
        return found


class Group:
    """The same synthetic groups as in `java/Assignors.java`."""

    def __init__(self, size: str, kind: str) -> None:
        self.size = size
        self.members, self.topics, partitions = map(int, size.split("x"))
        remainders = range(5) if kind == "heterogeneous" else [-1]
        names = [f"topic-{number:04d}" for number in range(self.topics)]
        self._specs = {name: TopicSpec(partitions) for name in names}
        self._wanted = [
            tuple(name for number, name in enumerate(names) if remainder < 0 or (number - remainder) % 5 in (0, 1))
            for remainder in remainders
        ]

    def full(self) -> GroupSpec:
        """Return the group without owned partitions."""
        return self._group(self.members, {}, "")

    def join(self, owned: Mapping[str, Assignment], assignor: str) -> GroupSpec:
        """Return the group with one member more, whose others own what they were assigned."""
        return self._group(self.members + 1, owned, assignor)

    def _group(self, members: int, owned: Mapping[str, Assignment], assignor: str) -> GroupSpec:
        found = {}
        for number in range(members):
            name = f"member-{number:05d}"
            held = tuple(sorted(owned[name].partitions)) if name in owned else ()
            user_data = encode_sticky(held, 1) if assignor == "sticky" and name in owned else None
            generation = 1 if name in owned else -1
            topics = self._wanted[number % len(self._wanted)]
            found[name] = MemberSpec(Subscription(topics, user_data, held, generation))
        return GroupSpec(found, self._specs)


def our_times_ms(assignor: Assignor, spec: GroupSpec, budget_ms: int, is_read: bool) -> list[float]:
    """Call assign() for so long, at least once; with `is_read`, look at every member's partitions too."""
    found: list[float] = []
    end = time.thread_time() + budget_ms / 1000
    while not found or time.thread_time() < end:
        start = time.thread_time()
        assignments = assignor.assign(spec)
        if is_read:
            for each in assignments.values():
                len(each.partitions)
        found.append(1000 * (time.thread_time() - start))
    return found


def compare(java: Java, group: Group, kind: str, made: type[Assignor], quick: bool, is_read: bool) -> Iterator[Result]:
    """Yield the rows of one assignor on one group, full and join."""
    assignor = made()
    java.ask(f"full {assignor.name} {group.members} {group.topics} {group.size.split('x')[2]} {kind}")
    spec = group.full()
    before: dict[str, Assignment] = {}
    their_before: dict[str, Assignment] = {}
    for scenario in ("full", "join"):
        if scenario == "join":
            java.ask("join")
            spec = group.join(before, assignor.name)
        first_ms = java.times_ms(0)[0]
        # A warm JVM has compiled what is hot; a call of many seconds warms itself.
        java.times_ms(100 if quick or first_ms > 3000 else 2000)
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(2 if quick or first_ms > 3000 else 5):
            # The least of many calls: what else the machine does can only add to it.
            ours.append(min(our_times_ms(assignor, spec, 150, is_read)))
            theirs.append(min(java.times_ms(150)))
        found, their_found = assignor.assign(spec), java.result()
        quality = _quality(spec, found, before)
        their_quality = _quality(spec, their_found, their_before)
        before, their_before = found, their_found
        is_general = kind == "heterogeneous" and group.size == GENERAL and made is CooperativeStickyAssignor
        yield Result(
            f"{assignor.name} {group.size} {kind[:3]} {scenario}",
            "ms",
            ours,
            theirs,
            PEER,
            None if made is StickyAssignor else Aim(0.1 if is_general else 1, of_ratio=True, at_most=True),
            f"loads {_loads(quality)}, moved {quality.moved}; theirs {_loads(their_quality)}, {their_quality.moved}",
            {
                "score": quality.score,
                "their_score": their_quality.score,
                "moved": quality.moved,
                "their_moved": their_quality.moved,
            },
        )
        assert quality.is_valid, quality.faults[:3]


def _quality(spec: GroupSpec, found: Mapping[str, Assignment], before: Mapping[str, Assignment]) -> Quality:
    return measure(spec, found, owned={name: each.partitions for name, each in before.items()})


def _loads(quality: Quality) -> str:
    return f"{quality.least:.0f}–{quality.most:.0f} (score {quality.score:.0f})"


def rows(quick: bool, sizes: tuple[str, ...] = SIZES, is_read: bool = False) -> Iterator[Outcome]:
    """Yield all rows: each size, each kind of group, each assignor."""
    for size in sizes:
        for kind in KINDS:
            group = Group(size, kind)
            for made in ASSIGNORS:
                # Java's eager sticky needs more than a minute for a call there, and is no aim of ours.
                if made is StickyAssignor and (kind, size) == ("heterogeneous", GENERAL):
                    continue
                # A JVM of its own, so that no assignor runs code that was compiled for another one's group.
                with Java() as java:
                    yield from compare(java, group, kind, made, quick, is_read)


def assignors(quick: bool) -> Iterator[Outcome]:
    """The row of `python -m bench`."""
    yield from rows(quick, SIZES[:2] if quick else SIZES)


if __name__ == "__main__":
    words = sys.argv[1:]
    chosen = tuple(word for word in words if not word.startswith("-")) or SIZES
    for outcome in rows("--quick" in words, chosen, "--read" in words):
        print(line(outcome), flush=True)
