"""One partition as a consumer follows it: where it reads, what is fetched ahead, and what stands in the way.

`position` is the next offset to hand to the user, `fetch_offset` the next one to ask the broker for. What is between
them lies in `ahead`. An answer counts only if the partition was not moved since it was asked (`moves`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kohort.client.consumer.batch import Batch
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition


@dataclass(slots=True, eq=False)
class TrackedPartition:
    """The mutable state of one assigned partition. `position` and `fetch_offset` are None until known."""

    partition: TopicPartition
    position: int | None = None
    fetch_offset: int | None = None
    leader_epoch: int = -1
    consumed: int | None = None
    consumed_epoch: int = -1
    committed: int | None = None
    started: int | None = None
    high_watermark: int | None = None
    is_paused: bool = False
    is_leaving: bool = False
    is_reset_due: bool = False
    reset_to: int | None = None
    moves: int = 0
    not_before_s: float = 0.0
    preferred: tuple[int, float] = (-1, 0.0)
    error: KafkaError | None = None
    unreadable: KafkaError | None = None
    corrupt_answers: int = 0
    ahead: deque[Batch] = field(default_factory=deque)
    ahead_bytes: int = 0

    def move(self, offset: int | None) -> None:
        """Read on at `offset`, whatever came before; None looks the position up again."""
        self.moves += 1
        self.position = self.fetch_offset = offset
        self.consumed = self.started = offset
        self.consumed_epoch = self.leader_epoch = -1
        self.ahead.clear()
        self.ahead_bytes = 0
        self.is_reset_due = False
        self.reset_to = None
        self.error = self.unreadable = None
        self.corrupt_answers = 0

    def fetched(self, batch: Batch) -> None:
        """Keep what was fetched until the user asks for it."""
        self.corrupt_answers = 0
        self.fetch_offset = batch.next_offset
        self.high_watermark = batch.high_watermark
        self.ahead.append(batch)
        self.ahead_bytes += batch.size

    def stop_at(self, offset: int, error: KafkaError) -> None:
        """Keep what was fetched before `offset` and nothing behind it; there `poll` raises `error`, until `move`."""
        self.fetch_offset = offset
        self.unreadable = error

    @property
    def is_at_unreadable(self) -> bool:
        """Whether the next record cannot be read."""
        return self.unreadable is not None and not self.ahead

    def hand_out(self, count: int | None) -> Batch | None:
        """Return the next batch, of at most `count` records, or None; its end is the new position."""
        while self.ahead:
            batch = self.ahead.popleft()
            self.ahead_bytes -= batch.size
            batch, error = batch.readable()
            if error is not None:
                self.ahead.clear()
                self.ahead_bytes = 0
                self.stop_at(batch.next_offset, error)
            if count is not None and len(batch) > count:
                batch, rest = batch.split(count)
                self.ahead.appendleft(rest)
                self.ahead_bytes += rest.size
            self.position = batch.next_offset
            if batch.leader_epoch >= 0:
                self.leader_epoch = batch.leader_epoch
            if len(batch):
                return batch
        return None

    @property
    def uncommitted(self) -> int:
        """How many offsets the user has finished since the last commit, or since reading began or was moved."""
        if self.consumed is None or self.started is None or self.consumed == self.committed:
            return 0
        is_since = self.committed is not None and self.started <= self.committed <= self.consumed
        return self.consumed - (self.committed if is_since and self.committed is not None else self.started)

    def take_as_consumed(self) -> None:
        """The user is done with what was handed out."""
        self.consumed = self.position
        self.consumed_epoch = self.leader_epoch
