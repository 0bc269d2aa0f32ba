"""Lag of a reader in a partition: how many records are unread, and for how long the oldest of them has been there.

A reader whose next offset is C gets the records of [max(C, S), E): S is the first offset of the log, E its end for that
reader, which is the last stable offset where it reads committed records only, else the high watermark. Its lag in
records is their number, its lag in seconds the age of the first of them. Markers of transactions, aborted records and
offsets that a cleaner left empty are no records. No value is negative; one that cannot be known is None, with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Self

CLOCK_SKEW_MS = 1_000
"""A timestamp that is ahead of our clock by no more than this is of now: clocks that NTP sets differ by less."""


class LagReason(StrEnum):
    """Why a lag, or its seconds alone, is unknown; `text` is that in words."""

    text: str

    def __new__(cls, value: str, text: str) -> Self:
        reason = str.__new__(cls, value)
        reason._value_ = value
        reason.text = text
        return reason

    NOT_COMMITTED = "not_committed", "nothing is committed: auto.offset.reset decides where the group begins"
    TOPIC_DELETED = "topic_deleted", "the topic, or this partition of it, does not exist"
    TOPIC_RECREATED = "topic_recreated", "the topic was deleted and created again since the commit"
    BEYOND_END = "beyond_end", "the committed offset is beyond the end: the log was truncated, or its topic recreated"
    LOG_TRUNCATED = "log_truncated", "the log was truncated, or its topic recreated, below the committed offset"
    NO_TIMESTAMP = "no_timestamp", "the oldest unread record has no timestamp"
    CLOCK_AHEAD = "clock_ahead", "the oldest unread record has a timestamp in the future: its producer's clock is ahead"
    NO_RECORD_YET = "no_record_yet", "what was read so far is markers and aborted records; the next look reads on"
    NOT_FETCHED = "not_fetched", "the oldest unread record was not fetched yet"
    UNREADABLE = "unreadable", "the oldest unread record batch is corrupt, or its compression is not installed"
    NOT_AUTHORIZED = "not_authorized", "READ on the topic is needed for the timestamp of its records"
    UNAVAILABLE = "unavailable", "the partition's leader did not answer"


class LogEnds(NamedTuple):
    """The first offset of a log, the end of it for a reader, and the high watermark, which may be behind that end."""

    start: int
    end: int
    high_watermark: int


class OldestRecord(NamedTuple):
    """The first record that a reader has not read; `is_append_time`: its timestamp is the broker's (LogAppendTime)."""

    offset: int
    timestamp_ms: int
    is_append_time: bool


@dataclass(slots=True, eq=False)
class UnreadRecords:
    """What was read of a log behind an offset: `count` records of [`start`, `next_offset`), `oldest` is their first.

    `end` is where the log ended then, `began_ms` when it was read. `fault` is why `next_offset` cannot be read.
    """

    start: int
    next_offset: int
    end: int = 0
    count: int = 0
    oldest: OldestRecord | None = None
    fault: LagReason | None = None
    began_ms: int = 0

    @classmethod
    def at(cls, offset: int, began_ms: int = 0) -> UnreadRecords:
        """Return that nothing was read behind `offset` yet."""
        return cls(offset, offset, began_ms=began_ms)

    @property
    def is_counted(self) -> bool:
        """Whether everything was read up to the end that the log had."""
        return self.next_offset >= self.end


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a reader is behind: `records`, and `seconds` since the oldest of them was written; None is unknown.

    `reason` is why one of them is. `is_bound`: there may be fewer records, since markers and gaps among the offsets
    were not read. `offset` is where the reader continues, `start` and `end` are those of the log.
    """

    records: int | None
    seconds: float | None
    reason: LagReason | None = None
    is_bound: bool = False
    offset: int | None = None
    start: int | None = None
    end: int | None = None
    oldest: OldestRecord | None = None

    @property
    def deleted(self) -> int:
        """How many offsets the log deleted before they were read."""
        return 0 if self.offset is None or self.start is None else max(0, self.start - self.offset)

    def to_json(self) -> dict[str, Any]:
        """Return it as `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Lag:
        """Return what `to_json` made."""
        reason, oldest = found["reason"], found["oldest"]
        read = {"reason": reason and LagReason[reason.upper()], "oldest": oldest and OldestRecord(*oldest)}
        return cls(**{**found, **read})


def lag_of(offset: int | None, log: LogEnds, unread: UnreadRecords, now_ms: int) -> Lag:
    """Return the lag of a reader whose next offset is `offset`; None: it has none yet.

    `unread` begins at `offset`, or at the start of the log where that is later.
    """
    start, end, high_watermark = log
    if offset is None:
        is_empty = start >= high_watermark
        return Lag(0, 0.0, None, start=start, end=end) if is_empty else _unknown(LagReason.NOT_COMMITTED, None, log)
    if offset > high_watermark:
        return _unknown(LagReason.BEYOND_END, offset, log)
    records = unread.count + max(0, end - max(unread.next_offset, start))
    is_bound = unread.next_offset < end
    seconds: float | None = 0.0
    reason = None
    if unread.oldest is not None:
        seconds, reason = _age(unread.oldest, now_ms)
    elif is_bound:
        seconds, reason = None, unread.fault or LagReason.NO_RECORD_YET
    return Lag(records, seconds, reason, is_bound, offset, start, end, unread.oldest)


def _age(oldest: OldestRecord, now_ms: int) -> tuple[float | None, LagReason | None]:
    if oldest.timestamp_ms < 0:
        return None, LagReason.NO_TIMESTAMP
    if oldest.timestamp_ms - now_ms > CLOCK_SKEW_MS:
        return None, LagReason.CLOCK_AHEAD
    return max(0, now_ms - oldest.timestamp_ms) / 1000, None


def _unknown(reason: LagReason, offset: int | None, log: LogEnds) -> Lag:
    return Lag(None, None, reason, offset=offset, start=log.start, end=log.end)


class GroupLag(NamedTuple):
    """The lag of a group: `records` of all its partitions, `seconds` of the oldest unread one; None is unknown.

    Of `unknown` partitions one of the two is not known: then there is at least so much.
    """

    records: int | None
    seconds: float | None
    unknown: int


def group_lag(lags: Iterable[Lag]) -> GroupLag:
    """Return the lag of a group from those of its partitions; unknown where it has none."""
    found = list(lags)
    seconds = [each.seconds for each in found]
    known = [each for each in seconds if each is not None]
    return GroupLag(
        sum_known([each.records for each in found]),
        max(known) if any(known) or (known and None not in seconds) else None,
        sum(each.records is None or each.seconds is None for each in found),
    )


def sum_known(lags: Sequence[int | None]) -> int | None:
    """Return the sum of those that are known; None where that is 0 and others are unknown: it may be any number."""
    known = [each for each in lags if each is not None]
    return sum(known) if any(known) or (known and None not in lags) else None
