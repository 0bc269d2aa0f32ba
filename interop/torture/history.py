"""The histories of clients: what each tried, when, and what it was answered; read from their lines after a run.

An operation whose answer never came is unknown: it may have taken effect at any time after it began, or never.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from interop.account import Row

UNKNOWN = math.inf
"""When an operation was acknowledged whose outcome is unknown."""

KEYS = 4
"""How many keys each writer has."""

ATTEMPTS = 3
"""How often services handle a record before it is a dead letter."""

Place = tuple[str, int]  # topic, partition


def key_of(value: str) -> str:
    """Return the key of a record by its value, which is WRITER:PARTITION:NUMBER."""
    writer, _, number = value.split(":")
    return f"{writer}-{int(number) % KEYS}"


def is_poisoned(value: str) -> bool:
    """Whether services fail with a record each time, and try no second time."""
    return int(value.rpartition(":")[2]) % 50 == 7


class Logged(NamedTuple):
    """A record that is in the log after all; a record of an aborted transaction is not committed."""

    offset: int
    value: str
    is_committed: bool = True


Log = Mapping[Place, list[Logged]]


@dataclass(slots=True)
class Append:
    """A record that was sent, numbered by its writer within its partition."""

    number: int
    sent_s: float
    acked_s: float = UNKNOWN
    offset: int = -1  # the one acknowledged, where the library says it

    @property
    def is_acknowledged(self) -> bool:
        """Whether it must be in the log."""
        return self.acked_s != UNKNOWN


@dataclass(slots=True)
class Transaction:
    """Records, by partition and number, that are to be visible together or not at all."""

    records: list[tuple[int, int]]
    is_committed: bool | None = None  # none: unknown


@dataclass(slots=True)
class Writer:
    """What one writer has done. An exact one, idempotent or transactional, writes no record twice."""

    name: str
    topic: str
    is_exact: bool = False
    is_transactional: bool = False
    appends: dict[int, list[Append]] = field(default_factory=dict)
    transactions: list[Transaction] = field(default_factory=list)

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in one line of the writer."""
        match event:
            case {"event": "append", "partition": partition, "first": first, "count": count, "at_s": at_s}:
                numbered = self.appends.setdefault(partition, [])
                numbered += (Append(number, at_s) for number in range(first, first + count))
            case {"event": "appended", "partition": partition, "number": number, "offset": offset, "at_s": at_s}:
                append = self.appends[partition][number]
                append.acked_s, append.offset = at_s, -1 if offset is None else offset
            case {"event": "begin", "records": records}:
                self.transactions.append(Transaction([(partition, number) for partition, number in records]))
            case {"event": "end", "outcome": outcome}:
                self.transactions[-1].is_committed = outcome == "committed"

    @property
    def acknowledged(self) -> int:
        """How many records must be in the log."""
        return sum(append.is_acknowledged for numbered in self.appends.values() for append in numbered)


class Commit(NamedTuple):
    """An offset that a member of a group asked to be committed."""

    partition: int
    offset: int
    sent_s: float
    acked_s: float = UNKNOWN


class OffsetFetch(NamedTuple):
    """What the committed offset of a partition was at some time between question and answer; -1 for none."""

    partition: int
    offset: int
    sent_s: float
    answered_s: float


@dataclass(slots=True)
class Reader:
    """What one member of a group has done: its reads, cut by changes of its partitions, and its commits."""

    name: str
    topic: str
    is_read_committed: bool = False
    spans: list[list[Row]] = field(default_factory=lambda: [[]])  # each without a change of partitions in it
    commits: list[Commit] = field(default_factory=list)
    _asked: tuple[float, dict[int, int]] | None = None

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in one line of the member (see interop/members)."""
        match event:
            case {"event": "owns"}:
                self.spans.append([])
            case {"event": "read", "records": records}:
                self.spans[-1] += (tuple(row) for row in records)
            case {"event": "committing", "offsets": offsets, "at_s": at_s}:
                self.close()
                self._asked = (at_s, {int(partition): offset for partition, offset in offsets.items()})
            case {"event": "committed", "at_s": at_s} if self._asked is not None:
                sent_s, offsets = self._asked
                self.commits += (Commit(partition, offset, sent_s, at_s) for partition, offset in offsets.items())
                self._asked = None

    def close(self) -> None:
        """Keep as unknown a commit that was not acknowledged: no line of it follows any more."""
        if self._asked is not None:
            sent_s, offsets = self._asked
            self.commits += (Commit(partition, offset, sent_s) for partition, offset in offsets.items())
            self._asked = None


@dataclass(slots=True)
class Handling:
    """One call of a handler. `ended_s` is `UNKNOWN` where it never ended, `is_done` whether it returned."""

    partition: int
    offset: int
    value: str
    began_s: float
    ended_s: float = UNKNOWN
    is_done: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether it raised an exception."""
        return self.ended_s != UNKNOWN and not self.is_done


@dataclass(slots=True)
class Ownership:
    """How long a member had a partition. `why` it ended is "revoked", "lost", or "" where the member was killed."""

    began_s: float
    ended_s: float = UNKNOWN
    why: str = ""


@dataclass(slots=True)
class CommitAttempt:
    """A commit of a service. `ended_s` is when it was answered or abandoned; `UNKNOWN` where the member ended first."""

    partitions: frozenset[int]
    sent_s: float
    ended_s: float = UNKNOWN
    is_acked: bool = False


@dataclass(slots=True)
class ServiceMember(Reader):
    """What one member of a service has done. `turns` are when its event loop was free, some ten times a second."""

    handlings: list[Handling] = field(default_factory=list)
    owned: dict[int, list[Ownership]] = field(default_factory=dict)
    attempts: list[CommitAttempt] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)
    ended_s: float = 0.0
    _running: dict[tuple[int, int], Handling] = field(default_factory=dict)

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in one line of the service (see interop/torture/service.py)."""
        self.ended_s = at_s = event["at_s"]
        match event:
            case {"event": "began", "partition": partition, "offset": offset, "value": value}:
                self.handlings.append(handling := Handling(partition, offset, value, at_s))
                self._running[partition, offset] = handling
            case {"event": "handled" | "failed" as how, "partition": partition, "offset": offset}:
                handling = self._running.pop((partition, offset))
                handling.ended_s, handling.is_done = at_s, how == "handled"
            case {"event": "assigned", "partitions": partitions}:
                for each in partitions:
                    self.owned.setdefault(each, []).append(Ownership(at_s))
            case {"event": "revoked" | "lost" as why, "partitions": partitions}:
                for each in partitions:
                    self.owned[each][-1].ended_s, self.owned[each][-1].why = at_s, why
            case {"event": "committing", "offsets": offsets}:
                self.attempts.append(CommitAttempt(frozenset(map(int, offsets)), at_s))
            case {"event": "committed" | "refused" as how, "codes": _}:  # without: its start or its end was refused
                self.attempts[-1].ended_s, self.attempts[-1].is_acked = at_s, how == "committed"
            case {"event": "turn"}:
                self.turns.append(at_s)
        Reader.take(self, event)  # the commits


@dataclass(slots=True)
class GroupHistory:
    """One group: its members of all times, and its committed offsets as they were seen by another client."""

    name: str
    topic: str
    readers: list[Reader] = field(default_factory=list)
    fetches: list[OffsetFetch] = field(default_factory=list)

    def handlings(self) -> Iterator[Handling]:
        """Yield the calls of handlers of its members, where these are services."""
        for reader in self.readers:
            if isinstance(reader, ServiceMember):
                yield from reader.handlings

    @property
    def final(self) -> dict[int, int]:
        """The committed offset of each partition when it was seen last."""
        return {fetch.partition: fetch.offset for fetch in sorted(self.fetches, key=lambda each: each.answered_s)}


def take_lines(taker: Writer | Reader, lines: Iterable[str]) -> None:
    """Take in the lines of a program; its last one is torn where it was killed."""
    for line in lines:
        if line.rstrip().endswith("}"):
            taker.take(json.loads(line))
    if isinstance(taker, Reader):
        taker.close()
