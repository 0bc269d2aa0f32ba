"""The offset commits of a generated group while it is stable: times, offsets, style.

Commits are most of any real log. They are written directly in Kafka's format, one batch for each OffsetCommit request;
rates follow the time of day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import partial
from math import cos, pi
from random import Random
from typing import NamedTuple

from kohort.fleet.schema import DAY_MS, HOUR_MS
from kohort.group.events import OffsetCommitted
from kohort.log.group_records import offset_key_head, offset_value, partition_bytes
from kohort.wire.record_batches import ControlType, Record, control_record, encode_batch

OPENS_HOUR, CLOSES_HOUR = 8, 18
HALT_MS = 34 * HOUR_MS
"""How long before the log's end a halted group committed last."""
OVERLAP_MS = HOUR_MS
"""How long two processes commit for the same partitions, topics are created again, or a reader begins again."""
EXPIRES_AFTER_MS = 10 * HOUR_MS
OFTEN_MS = 4 * 60_000
"""How often they do then."""
SOON_MS = 60_000
"""Delay of a new member's first commit, of all its partitions; later it commits its halves in turn."""


class CommitStyle(StrEnum):
    """Style of a group's commits."""

    STEADY = "steady"
    """By day more often than by night."""
    OFFICE = "office"
    """From eight to eighteen only."""
    HALTED = "halted"
    """Steady, and for the last hours not at all."""
    ZOMBIE = "zombie"
    """Steady, and for an hour two processes commit for the same partitions, one of them far behind."""
    RESET = "reset"
    """Steady; whenever the group is empty its offsets are reset backwards, in three steps."""
    RENEWED = "renewed"
    """Steady, and within an hour its topics are deleted and created again, several times."""
    REPEATED = "repeated"
    """Steady, and for an hour a reader without membership begins again every few minutes."""
    EXPIRING = "expiring"
    """Steady, and each commit has an expiry time, soon after the log's end."""
    TRANSACTIONAL = "transactional"
    """Steady, in transactions; one in twenty is aborted."""
    FIRST = "first"
    """Steady, and once before the group's first record, as if records of its former type had been compacted."""
    NONE = "none"


class Batch(NamedTuple):
    """One record batch with its time."""

    at_ms: int
    content: bytes


class Span(NamedTuple):
    """A time in which the group has members."""

    from_ms: int
    until_ms: int
    empty_until_ms: int | None = None
    """Until when the group had no members before, if it had none."""


class Committer:
    """Generates the commits of one group. `topics` are ids and partition counts by name."""

    def __init__(
        self, group: str, topics: dict[str, tuple[bytes, int]], style: CommitStyle, interval_ms: int, random: Random
    ) -> None:
        self._style, self._interval_ms, self._random = style, interval_ms, random
        self._parts = [
            (offset_key_head(group, name) + partition_bytes(index), name, index, topic_id)
            for name, (topic_id, count) in sorted(topics.items())
            for index in range(count)
        ]
        self._group = group
        self._rate = random.choice((0.02, 0.5, 4.0, 40.0))
        """Records per second and partition."""
        self._offsets = [random.randrange(1_000_000) for _ in self._parts]
        self._producer_id = random.randrange(1000, 1_000_000)
        self._all = range(len(self._parts))

    def batches(self, spans: Sequence[Span], end_ms: int) -> Iterator[Batch]:
        """Yield all commits."""
        style = self._style
        if style is CommitStyle.NONE:
            return
        if style is CommitStyle.FIRST:
            yield self._batch(spans[0].from_ms - HOUR_MS, self._all, end_ms)
        zombie_from_ms = end_ms  # also of other styles that go back several times within an hour
        if style in (CommitStyle.ZOMBIE, CommitStyle.RENEWED, CommitStyle.REPEATED):
            longest = max(spans, key=lambda span: span.until_ms - span.from_ms)
            zombie_from_ms = (longest.from_ms + longest.until_ms) // 2
        turn = 0
        for span in spans:
            if style is CommitStyle.RESET and span.empty_until_ms is not None:
                for seconds in (180, 120, 60):
                    self._offsets = [max(0, offset - 5_000) for offset in self._offsets]
                    yield self._batch(span.empty_until_ms - seconds * 1000, self._all, end_ms)
            at_ms = last_ms = span.from_ms
            is_first = True
            while True:
                wait_ms = min(self._interval_ms, SOON_MS) if is_first else self._interval_ms
                at_ms += int(wait_ms / self._activity(at_ms) * (0.5 + self._random.random()))
                if last_ms < zombie_from_ms + OVERLAP_MS and at_ms > zombie_from_ms:
                    at_ms = max(last_ms, zombie_from_ms) + int(OFTEN_MS * (0.5 + self._random.random()))
                if at_ms >= span.until_ms or (style is CommitStyle.HALTED and at_ms > end_ms - HALT_MS):
                    break
                if style is CommitStyle.OFFICE and not OPENS_HOUR <= at_ms % DAY_MS // HOUR_MS < CLOSES_HOUR:
                    continue
                self._advance(at_ms - last_ms)
                last_ms = at_ms
                half = [place for place in self._all if is_first or place % 2 == turn % 2] or [0]
                turn, is_first = turn + 1, False
                if style is CommitStyle.TRANSACTIONAL:
                    yield from self._transaction(at_ms, half)
                    continue
                yield self._batch(at_ms, half, end_ms)
                if not zombie_from_ms <= at_ms < zombie_from_ms + OVERLAP_MS:
                    continue
                if style is not CommitStyle.ZOMBIE:
                    self._begin_again()
                else:
                    behind = 2_000 + (at_ms - zombie_from_ms) // 1000
                    yield self._batch(at_ms + OFTEN_MS // 4, half[:1], end_ms, behind)

    def _begin_again(self) -> None:
        """Let the next commits begin at the first records, of new topics if the style has them."""
        self._offsets = [0] * len(self._parts)
        if self._style is CommitStyle.RENEWED:
            ids = {name: self._random.randbytes(16) for name in sorted({part[1] for part in self._parts})}
            self._parts = [(key, name, index, ids[name]) for key, name, index, _ in self._parts]

    def _activity(self, at_ms: int) -> float:
        """Return the relative load at a time of day, around 1: highest in the afternoon, lowest at night."""
        return 1.0 + 0.7 * cos((at_ms % DAY_MS / DAY_MS - 0.6) * 2 * pi)

    def _advance(self, elapsed_ms: int) -> None:
        for place in self._all:
            self._offsets[place] += 1 + int(self._rate * elapsed_ms / 1000 * self._random.random())

    def _records(self, at_ms: int, places: Sequence[int], end_ms: int, behind: int = 0) -> list[Record]:
        expire_ms = end_ms + EXPIRES_AFTER_MS if self._style is CommitStyle.EXPIRING else -1
        records = []
        for place in places:
            key, topic, index, topic_id = self._parts[place]
            offset = max(0, self._offsets[place] - behind)
            event = OffsetCommitted(self._group, topic, index, offset, 0, "", at_ms, expire_ms, topic_id)
            records.append(Record(0, at_ms, key, offset_value(event)))
        return records

    def _batch(self, at_ms: int, places: Sequence[int], end_ms: int, behind: int = 0) -> Batch:
        return Batch(at_ms, encode_batch(self._records(at_ms, places, end_ms, behind)))

    def _transaction(self, at_ms: int, places: Sequence[int]) -> Iterator[Batch]:
        records = self._records(at_ms, places, 0)
        encoded = partial(encode_batch, producer_id=self._producer_id, producer_epoch=0, transactional=True)
        yield Batch(at_ms, encoded(records))
        kind = ControlType.ABORT if self._random.random() < 0.05 else ControlType.COMMIT
        marker = control_record(kind, at_ms + 3)
        yield Batch(at_ms + 3, encoded([marker], control=True))
