"""What a consumer knows of each partition that it reads: position, fetched records, and errors.

`position` is the next offset that `poll` returns, `fetch_offset` the next one to fetch. The records between them lie in
`buffered`. A response counts only if the partition was not moved since it was requested (`moves`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.client.cluster.offset_specs import EARLIEST
from kohort.client.consumer.batch import Batch
from kohort.client.consumer.finished_offsets import FinishedOffsets
from kohort.client.record import Record
from kohort.model.assignment import Partitions, in_order
from kohort.model.errors import KafkaError
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.model.lag import Lag, LagReason, LogEnds, UnreadRecords, lag_of


@dataclass(slots=True, eq=False)
class PartitionState:
    """The mutable state of one assigned partition. `position` and `fetch_offset` are None until known.

    `finished` is set by `process`, which finishes records in another order; it then decides what is consumed.
    `topic_id` is the id of the topic that the position belongs to, where it is known.
    `end` is the high watermark, or the last stable offset for a reader of committed records, as of the last fetch.
    `buffered_bytes` is the size of the batches of which nothing was returned, `left` how many records `pop_record` has
    left of the first one.

    More than 20 attributes: what is known of a partition goes as a whole when it is revoked.
    """

    partition: TopicPartition
    position: int | None = None
    fetch_offset: int | None = None
    topic_id: bytes = NO_TOPIC_ID
    leader_epoch: int = -1
    consumed: int | None = None
    consumed_epoch: int = -1
    committed: int | None = None
    committed_metadata: str = ""
    finished: FinishedOffsets | None = None
    started: int | None = None
    end: int | None = None
    is_paused: bool = False
    is_leaving: bool = False
    is_reset_due: bool = False
    reset_to: int | None = None
    moves: int = 0
    not_before_s: float = 0.0
    preferred: tuple[int, float] = (-1, 0.0)
    error: KafkaError | None = None
    unreadable: KafkaError | None = None
    corrupt_responses: int = 0
    buffered: deque[Batch[Any, Any]] = field(default_factory=deque)
    buffered_bytes: int = 0
    left: int = 0

    @property
    def needs_position(self) -> bool:
        """Whether the position is unknown or due to be reset."""
        return self.position is None or self.is_reset_due

    @property
    def is_served(self) -> bool:
        """Whether `poll` may return records of it: it is neither paused nor being revoked."""
        return not self.is_paused and not self.is_leaving

    def seek(self, offset: int | None) -> None:
        """Read on at `offset`, whatever came before; None looks the position up again."""
        self.moves += 1
        self.position = self.fetch_offset = offset
        self.consumed = self.started = offset
        self.consumed_epoch = self.leader_epoch = -1
        self.buffered.clear()
        self.buffered_bytes = self.left = 0
        self.finished = None
        self.is_reset_due = False
        self.reset_to = None
        self.error = self.unreadable = None
        self.corrupt_responses = 0

    def fetch_again(self) -> None:
        """Fetch from the position on once more, whatever is buffered."""
        self.moves += 1
        self.fetch_offset = self.position
        self.buffered.clear()
        self.buffered_bytes = self.left = 0
        self.unreadable = None

    def pass_over(self, offset: int) -> None:
        """Read on at `offset`, though what lies before it cannot be read; what was returned stays as it is."""
        self.position = offset
        self.corrupt_responses = 0
        self.fetch_again()

    def reset(self, timestamp: int) -> None:
        """Read on at the offset for a timestamp of ListOffsets, once it is looked up."""
        self.seek(None)
        self.is_reset_due = True
        self.reset_to = timestamp

    def buffer_batch(self, batch: Batch[Any, Any]) -> None:
        """Buffer what was fetched until the user polls for it."""
        self.corrupt_responses = 0
        self.fetch_offset = batch.next_offset
        self.buffered.append(batch)
        self.buffered_bytes += batch.size

    def stop_at(self, offset: int, error: KafkaError) -> None:
        """Buffer what was fetched before `offset` and nothing behind it; there `poll` raises `error`, until `seek`."""
        self.fetch_offset = offset
        self.unreadable = error

    def pop_error(self) -> KafkaError | None:
        """Return the error to be raised, once."""
        error, self.error = self.error, None
        return error

    def pop_batch(self, count: int | None) -> Batch[Any, Any] | None:
        """Return the next batch, of at most `count` records, or None; its end is the new position."""
        self.left = 0
        while self.buffered:
            batch = self.buffered.popleft()
            if batch.returned:
                _, batch = batch.split(batch.returned)
            else:
                self.buffered_bytes -= batch.size
            batch, error = batch.readable()
            if error is not None:
                self.buffered.clear()
                self.buffered_bytes = 0
                self.stop_at(batch.next_offset, error)
            if count is not None and len(batch) > count:
                batch, rest = batch.split(count)
                self.buffered.appendleft(rest)
                self.buffered_bytes += rest.size
            has_unfinished = self.consumed != self.position
            self.position = batch.next_offset
            if batch.leader_epoch >= 0:
                self.leader_epoch = batch.leader_epoch
            if len(batch):
                return batch
            # Markers, aborted records and gaps: the next auto-commit is behind them, so that the group has no lag.
            if self.finished is not None:
                self.finished.take((), self.position)
            elif not has_unfinished:
                self.mark_consumed()
        return None

    def pop_record(self) -> Record[Any, Any] | None:
        """Return the next record, or None; the offset behind it is the new position.

        Its batch stays buffered, to be returned further, but counts no longer as bytes that wait.
        """
        if not self.left:
            if (begun := self.pop_batch(None)) is None:
                return None
            self.buffered.appendleft(begun)
            self.left = len(begun)
        batch = self.buffered[0]
        record = batch.records[batch.returned]
        batch.returned += 1
        self.left -= 1
        self.position = record.offset + 1 if self.left else batch.next_offset
        return record

    @property
    def lag(self) -> int | None:
        """How many offsets it is behind its end, as the last fetch showed it; None where that is unknown."""
        if self.end is None or self.position is None:
            return None
        return max(0, self.end - self.position)

    def time_lag(self, now_ms: int) -> Lag | None:
        """Return how far `poll` is behind, as the last fetch showed it; None where there is no position."""
        if (position := self.position) is None:
            return None
        if (end := self.end) is None:
            return Lag(None, None, LagReason.NOT_FETCHED, offset=position)
        unread = UnreadRecords(position, position, fault=LagReason.NOT_FETCHED)
        for batch in list(self.buffered):
            if unread.fault is not LagReason.UNREADABLE:
                batch.count_in(unread)
        return replace(lag_of(position, LogEnds(position, end, max(position, end)), unread, now_ms), start=None)

    @property
    def uncommitted(self) -> int:
        """How many offsets the user has finished since the last commit, or since reading began or was moved."""
        if self.consumed is None or self.started is None or self.consumed == self.committed:
            return 0
        if self.committed is not None and self.started <= self.committed <= self.consumed:
            return self.consumed - self.committed
        return self.consumed - self.started

    def mark_consumed(self) -> None:
        """Count the records that `poll` returned as finished, unless `finished` counts them."""
        if self.finished is None:
            self.consumed = self.position
            self.consumed_epoch = self.leader_epoch

    def room(self, limit: int) -> int:
        """Return how many records a poll may return of it, of at most `limit`."""
        return limit if self.finished is None else min(limit, self.finished.room)

    def committable(self) -> OffsetAndMetadata | None:
        """Return what auto-commit commits of it: what is finished and not committed yet."""
        metadata = self.committed_metadata  # a note of the program's stays as it is
        if self.finished is not None:
            self.consumed, metadata = self.finished.offset, self.finished.metadata()
        if self.consumed is None or (self.consumed, metadata) == (self.committed, self.committed_metadata):
            return None
        if self.finished is None:
            metadata = ""
        return OffsetAndMetadata(self.consumed, metadata, self.consumed_epoch)


class PartitionTable:
    """The partitions that a consumer reads; iterating yields their states, in the order in which they are served next.

    Every part of a consumer shares this table. `position_wanted` is set where a partition may need a position.
    """

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self._read_whole: frozenset[str] = frozenset()
        self.position_wanted = asyncio.Event()

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, partition: TopicPartition) -> PartitionState:
        state = self._states.get(partition)
        if state is None:
            raise KeyError(f"{partition} is not assigned to this consumer")
        return state

    def get(self, partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition, or None where it is not assigned."""
        return self._states.get(partition)

    @property
    def partitions(self) -> Partitions:
        """The partitions, in order."""
        return in_order(self._states)

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin to read these partitions anew; set `position_wanted` when their positions may be looked up."""
        for partition in sorted(partitions):
            self._states[partition] = PartitionState(partition)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions no longer."""
        for partition in partitions:
            if (state := self._states.pop(partition, None)) is not None:
                state.is_leaving = True

    def retain(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions and no others; those that are read already stay at their positions."""
        self.remove([each for each in self._states if each not in partitions])
        if new := [each for each in partitions if each not in self._states]:
            self.add(new)
            self.position_wanted.set()

    def read_whole(self, topics: frozenset[str]) -> None:
        """Begin to read these topics at their first record where no offset is committed, whatever the settings are."""
        self._read_whole = topics

    def reset_timestamp(self, partition: TopicPartition, by_settings: int | None) -> int | None:
        """Return where to begin without a valid committed offset, as a timestamp of ListOffsets, or None."""
        return EARLIEST if partition.topic in self._read_whole else by_settings

    def clear(self) -> None:
        """Read no partition."""
        self.remove(list(self._states))

    def move_to_end(self, state: PartitionState) -> None:
        """Move a partition to the end of the order."""
        self._states[state.partition] = self._states.pop(state.partition)

    def stop_serving(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no more records of these partitions: they are about to be revoked."""
        for partition in partitions:
            if (state := self._states.get(partition)) is not None:
                state.is_leaving = True

    def mark_consumed(self) -> None:
        """Count all records that `poll` returned as finished."""
        for state in self._states.values():
            state.mark_consumed()

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what `commit` commits by default: the position of every partition that has one."""
        return {
            state.partition: OffsetAndMetadata(state.position, "", state.leader_epoch)
            for state in self
            if state.position is not None and not state.is_reset_due
        }

    def finished(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what auto-commit commits of these partitions, of all by default: finished and not committed yet."""
        states = self if partitions is None else map(self._states.get, partitions)
        return {
            state.partition: found
            for state in states
            if state is not None and (found := state.committable()) is not None
        }

    def lags(self, now_ms: int) -> dict[TopicPartition, Lag]:
        """Return the lag of each partition that has a position. Any thread may call it."""
        return {state.partition: lag for state in list(self) if (lag := state.time_lag(now_ms)) is not None}
