"""What waits for appended records: responses for the flush of a log, long-polling fetches for new records.

An append is visible to readers, and may be acknowledged, once it has the durability its log promises: at once where the
operating system decides when to write, after `flush` where the log is flushed for every response. Waiting fetches are
woken once per batch of input, not once per append.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from kohort.log.disk import StorageError
from kohort.log.partition_log import LogFlush, PartitionLog
from kohort.model.errors import ErrorCode

log = logging.getLogger("kohort.node")

Released = Callable[[ErrorCode], None]
"""Called when appended records are as durable as promised, or with the error because of which they are not."""


class Waiter(Protocol):
    """A parked fetch."""

    missing_bytes: int
    is_committed: bool
    """Whether it reads nothing of open transactions: then bytes count once none is open."""

    def complete(self, now_ms: int) -> None:
        """Answer with what there is."""


class FlushedPartition(Protocol):
    """A partition as far as waiting for its records goes."""

    directory: str
    flushes: bool
    """Whether a response waits for the flush of the log."""
    waiters: dict[Waiter, None]

    def lose(self) -> None:
        """Note that records may be lost which were appended since the last flush."""

    @property
    def log(self) -> PartitionLog:
        """The open log."""

    @property
    def opened(self) -> PartitionLog | None:
        """The log if it is open."""


class Flush:
    """Logs that are flushed together, and what waits for that. Only `run` may be called in another thread."""

    def __init__(self, sizes: dict[FlushedPartition, int], waiting: list[tuple[FlushedPartition, Released]]) -> None:
        self.sizes = sizes
        """By partition, the bytes that were appended."""
        self.waiting = waiting
        self.failed: dict[FlushedPartition, StorageError] = {}
        self.lost: list[FlushedPartition] = []
        """Those of them whose log is still the one of this flush: what was appended since may be lost too."""
        self._logs: list[tuple[FlushedPartition, PartitionLog, LogFlush]] = []
        for partition in sizes:
            try:
                opened = partition.opened or partition.log
                self._logs.append((partition, opened, opened.begin_flush()))
            except StorageError as error:
                self.failed[partition] = error
                self.lost.append(partition)

    def run(self) -> None:
        """Bring everything to the medium."""
        for _, _, flush in self._logs:
            flush.run()

    def end(self) -> None:
        """Take the outcome over into the logs."""
        for partition, opened, flush in self._logs:
            try:
                opened.end_flush(flush)
            except StorageError as error:
                self.failed[partition] = error
                if partition.opened is opened:
                    self.lost.append(partition)


class Durability:
    """The responses and fetches of one node that wait."""

    def __init__(self) -> None:
        self._under_way: Flush | None = None
        self._dirty: dict[FlushedPartition, int] = {}
        self._waiting: list[tuple[FlushedPartition, Released]] = []
        self._postponed: list[Callable[[], None]] = []
        self.woken: dict[Waiter, None] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether anything waits for a flush to begin: what is appended during one is flushed together afterwards."""
        return bool(self._postponed or (self._dirty and self._under_way is None))

    def postpone(self, action: Callable[[], None]) -> None:
        """Run an action once at the end of this batch of input, before anything is flushed."""
        self._postponed.append(action)

    def run_postponed(self) -> None:
        """Run what was postponed so far."""
        while self._postponed:
            postponed, self._postponed = self._postponed, []
            for action in postponed:
                try:
                    action()
                except Exception:
                    log.exception("what was postponed failed")

    def appended(self, partition: FlushedPartition, size: int) -> None:
        """Note an append of so many bytes."""
        if partition.flushes:
            self._dirty[partition] = self._dirty.get(partition, 0) + size
        elif partition.waiters:
            self.grown(partition, size)

    def grown(self, partition: FlushedPartition, size: int) -> None:
        """Count down the fetches parked on a partition: readers may see so many more bytes."""
        for waiter in partition.waiters:
            if waiter.is_committed and partition.log.last_stable_offset < partition.log.high_watermark:
                continue
            waiter.missing_bytes -= size
            if waiter.missing_bytes <= 0:
                self.woken[waiter] = None

    def wake_fetches(self, partition: FlushedPartition) -> None:
        """Wake every fetch on a partition: something other than its records has changed."""
        for waiter in partition.waiters:
            self.woken[waiter] = None

    def when_durable(self, partition: FlushedPartition, released: Released) -> bool:
        """Call `released` once what a partition was given is durable; return False, and never call, if it is."""
        if partition in self._dirty:
            self._waiting.append((partition, released))
        elif self._under_way is not None and partition in self._under_way.sizes:
            self._under_way.waiting.append((partition, released))
        else:
            return False
        return True

    def wake(self, now_ms: int) -> None:
        """Complete the fetches that have what they waited for."""
        while self.woken:
            waiter = next(iter(self.woken))
            del self.woken[waiter]
            try:
                waiter.complete(now_ms)
            except Exception:
                log.exception("a waiting fetch failed")

    def flush(self) -> None:
        """Flush the logs that promised it, and release what waited for them, until nothing waits."""
        while (flush := self.begin_flush()) is not None:
            flush.run()
            self.end_flush(flush)

    def begin_flush(self) -> Flush | None:
        """Begin a flush of the logs that promised it; None where none did, or where one is under way."""
        self.run_postponed()
        if not self._dirty or self._under_way is not None:
            return None
        self._under_way = Flush(self._dirty, self._waiting)
        self._dirty, self._waiting = {}, []
        return self._under_way

    def end_flush(self, flush: Flush) -> None:
        """Release in order what waited for a flush that has run."""
        self._under_way = None
        flush.end()
        for partition, size in flush.sizes.items():
            error = flush.failed.get(partition)
            if error is not None:
                log.error("flush of %s: %s", partition.directory, error)
            else:
                self.grown(partition, size)
        for partition, released in flush.waiting:
            _release(
                partition, released, ErrorCode.KAFKA_STORAGE_ERROR if partition in flush.failed else ErrorCode.NONE
            )
        for partition in flush.lost:
            self.lose(partition)

    def lose(self, partition: FlushedPartition) -> None:
        """A flush has failed: what was appended since the last good one counts as lost, and so do its replies."""
        self._dirty.pop(partition, None)
        waiting, self._waiting = self._waiting, []
        for other, released in waiting:
            if other is partition:
                _release(partition, released, ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                self._waiting.append((other, released))
        partition.lose()


def _release(partition: FlushedPartition, released: Released, error: ErrorCode) -> None:
    try:
        released(error)
    except Exception:
        log.exception("a reply that waited for %s failed", partition.directory)
