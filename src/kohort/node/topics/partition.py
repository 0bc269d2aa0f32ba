"""One partition: its log, opened when first needed, and who waits for its records."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kohort.log.disk import Disk, DiskFull
from kohort.log.log_config import LogConfig
from kohort.log.partition_log import Appended, PartitionLog
from kohort.node.client_connection import Buffer
from kohort.node.configuration.broker_settings import LONG_MAX
from kohort.node.durability import Waiter

if TYPE_CHECKING:
    from kohort.node.topics.topics import Topic, Topics


log = logging.getLogger("kohort.node")


class Partition:
    """A partition of `topic`. Whoever appends goes through `append`, so that readers and flushes learn of it."""

    __slots__ = (
        "_disk",
        "_log",
        "_topics",
        "created_epoch",
        "directory",
        "flushes",
        "index",
        "is_deleted",
        "max_ahead_ms",
        "max_behind_ms",
        "topic",
        "waiters",
    )

    def __init__(self, topics: Topics, disk: Disk, topic: Topic, index: int, created_epoch: int) -> None:
        self._topics = topics
        self._disk = disk
        self._log: PartitionLog | None = None
        self.topic = topic
        self.index = index
        self.created_epoch = created_epoch
        self.directory = f"{topic.name}-{index}"
        self.is_deleted = False
        self.flushes = False
        """Whether a reply waits for fsync. This and the limits are known once the log is open."""
        self.max_ahead_ms = self.max_behind_ms = 0
        """How far from our clock a producer's timestamps may be."""
        self.waiters: dict[Waiter, None] = {}

    @property
    def leader_epoch(self) -> int:
        """How often the broker has started since the partition was created."""
        return self._topics.epoch - self.created_epoch

    @property
    def log(self) -> PartitionLog:
        """The open log. Raises StorageError."""
        if self._log is None:
            now_ms, topic_id = self._topics.now_ms(), self.topic.topic_id
            self._log = PartitionLog.open(self._disk, self.directory, self._configure(), now_ms, topic_id=topic_id)
            if self._log.recovery is not None and (sentence := self._log.recovery.sentence):
                log.warning("recovered %s after it was not closed: %s", self.directory, sentence)
        return self._log

    @property
    def size(self) -> int:
        """Bytes of its segments; one that nobody has needed yet is not opened for it. Raises StorageError."""
        if self._log is not None:
            return self._log.size
        names = [name for name in self._disk.list(self.directory) if name.endswith(".log")]
        return sum(self._disk.open(f"{self.directory}/{name}").size for name in names)

    @property
    def opened(self) -> PartitionLog | None:
        """The log if somebody has needed it yet."""
        return self._log

    def append(self, batches: Sequence[Buffer], now_ms: int) -> Appended:
        """Append whole, checked batches. Raises StorageError; then nothing was appended."""
        epoch, space = self._topics.epoch - self.created_epoch, self._topics.space
        try:
            appended = (self._log or self.log).append(batches, leader_epoch=epoch, now_ms=now_ms)
        except DiskFull as error:
            space.refused(error)
            raise
        if space.is_full:
            space.appended(sum(map(len, batches)))
        if self.flushes or self.waiters:
            self._topics.durability.appended(self, sum(map(len, batches)))
        return appended

    def reconfigure(self) -> None:
        """Take over changed settings of the topic or the broker."""
        if self._log is not None:
            self._log.config = self._configure()

    def delete(self) -> None:
        """Close the log and remove its files. Those who wait for records are woken and find it gone."""
        self.is_deleted = True
        self._topics.durability.rouse(self)
        opened, self._log = self._log, None
        if opened is not None:
            opened.delete()
        else:
            self._disk.remove_directory(self.directory)

    def close(self) -> None:
        """Flush and close the log, if it is open."""
        if self._log is not None:
            opened, self._log = self._log, None
            opened.close()

    def _configure(self) -> LogConfig:
        config = self.topic.config
        self.flushes = config.flush_messages < LONG_MAX
        self.max_ahead_ms = config.message_timestamp_after_max_ms
        self.max_behind_ms = config.message_timestamp_before_max_ms
        return LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms,
            index_interval_bytes=config.index_interval_bytes,
            retention_bytes=config.retention_bytes,
            retention_ms=config.retention_ms,
            max_message_bytes=config.max_message_bytes,
            message_timestamp_type=config.message_timestamp_type,
            cleanup_policy=",".join(config.cleanup_policy),
            min_compaction_lag_ms=config.min_compaction_lag_ms,
            max_compaction_lag_ms=config.max_compaction_lag_ms,
            min_cleanable_ratio=config.min_cleanable_dirty_ratio,
            delete_retention_ms=config.delete_retention_ms,
            flush_policy="fsync" if self.flushes else "os",
            producer_id_expiration_ms=self._topics.config.producer_id_expiration_ms,
        )
