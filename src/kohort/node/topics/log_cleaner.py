"""Cleans the compacted logs of one node, the dirtiest first, a slice of a few milliseconds at a time.

Between two slices the node serves whatever came in; one log is under way at a time. A log that cannot be cleaned is
logged once, and left alone until the broker starts again; a disk that fails is tried again later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from kohort.log.cleaner import Cleanable
from kohort.log.disk import StorageError
from kohort.log.partition_log import PartitionLog
from kohort.model.errors import KafkaError
from kohort.node.configuration.config import Config
from kohort.node.timers import Timers
from kohort.node.topics.topic import Partition
from kohort.node.topics.topics import Topics

log = logging.getLogger("kohort.node")

SLICE_BYTES = 64 << 10
"""How much of a log one turn reads: two milliseconds or so."""

PAUSE_MS = 2
"""Between two turns, for requests of clients."""

_TIMER = "clean"


class _Pass(NamedTuple):
    partition: Partition
    opened: PartitionLog
    steps: Iterator[int]


class LogCleaner:
    """The cleaner of one node. It looks for work every log.cleaner.backoff.ms, and at once after work was done."""

    def __init__(self, config: Config, topics: Topics, timers: Timers) -> None:
        self._config = config
        self._topics = topics
        self._timers = timers
        self._pass: _Pass | None = None
        self._abandoned: set[str] = set()
        """Folders of logs that cannot be cleaned."""

    @property
    def is_busy(self) -> bool:
        """Whether a log is under way."""
        return self._pass is not None

    def start(self, now_ms: int) -> None:
        """Ask for turns, if cleaning is wanted."""
        if self._config.log_cleaner_enable:
            self._timers.arm(_TIMER, now_ms + self._config.log_cleaner_backoff_ms, self._turn)

    def _turn(self, now_ms: int) -> None:
        read = 0
        if self._pass is None:
            self._look(now_ms)
        else:
            read = self._clean(self._pass)
        if self._pass is not None or read:
            pause_ms = int(read * 1000 / self._config.log_cleaner_io_max_bytes_per_second)
            self._timers.arm(_TIMER, now_ms + max(PAUSE_MS, pause_ms), self._turn)
        else:
            self._timers.arm(_TIMER, now_ms + max(1, self._config.log_cleaner_backoff_ms), self._turn)

    def _look(self, now_ms: int) -> None:
        """Begin with the log that needs it most, if one does."""
        best: tuple[bool, float] | None = None
        dirtiest: Partition | None = None
        for topic in self._topics:
            if "compact" not in topic.config.cleanup_policy:
                continue
            for partition in topic.partitions:
                found = self._need_of(partition, now_ms)
                if found is not None and (best is None or (found.is_overdue, found.ratio) > best):
                    best = found.is_overdue, found.ratio
                    dirtiest = partition
        if dirtiest is not None:
            opened, memory_bytes = dirtiest.log, self._config.log_cleaner_dedupe_buffer_size
            self._pass = _Pass(dirtiest, opened, opened.cleaner.begin(now_ms, memory_bytes=memory_bytes))

    def _need_of(self, partition: Partition, now_ms: int) -> Cleanable | None:
        """Return what there is to clean in a log, None if it is not worth it. A log that is not open is clean."""
        opened = partition.opened
        if opened is None or opened.failure is not None or partition.directory in self._abandoned:
            return None
        try:
            return opened.cleaner.cleanable(now_ms) if opened.cleaner.is_worthwhile(now_ms) else None
        except (StorageError, KafkaError) as error:
            log.error("cleaning of %s: %s", partition.directory, error)
            return None

    def _clean(self, under_way: _Pass) -> int:
        """Do a slice, and return how many bytes it read; 0 if the disk let nothing be done."""
        partition, opened, steps = under_way
        read = 0
        before = opened.cleaner.last
        try:
            for size in steps:
                read += size
                if read >= SLICE_BYTES:
                    return read
        except StorageError as error:
            log.error("cleaning of %s: %s", partition.directory, error)
            read = 0
            if opened.failure is not None and partition.opened is opened:
                partition.close()  # the next use opens it again, which finishes what was decided
        except KafkaError as error:
            log.error("%s cannot be cleaned: %s", partition.directory, error)
            self._abandoned.add(partition.directory)
        done = opened.cleaner.last
        if done is not None and done is not before:
            log.info(
                "cleaned %s up to offset %d: %d of %d bytes are left",
                partition.directory, done.first_dirty, done.after_bytes, done.before_bytes,
            )  # fmt: skip
        self._pass = None
        return max(read, 1) if done is not before else read
