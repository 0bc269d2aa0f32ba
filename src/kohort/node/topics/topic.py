"""One topic and its partitions: their logs, opened when first needed, and the fetches that wait for their records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from kohort.log.disk import Disk, StorageError
from kohort.log.partition_log import Appended, PartitionLog
from kohort.log.segments import LogConfig
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import EVENT_TOPIC
from kohort.model.setting import LONG_MAX, read_values
from kohort.node.configuration.config import Config, TopicConfig
from kohort.node.disk_health import DiskHealth
from kohort.node.durability import Durability, Waiter
from kohort.node.step_scheduler import Gate
from kohort.node.timers import NodeClock
from kohort.wire.codec import Buffer

log = logging.getLogger("kohort.node")

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", EVENT_TOPIC})


UNPACKED_AT_ONCE = 4
"""How many compressed batches are unpacked at a time: each may need `kohort.produce.max.unpacked.bytes` of memory."""

REOPEN_MS, LONGEST_REOPEN_MS = 1_000, 60_000
"""When a log that failed is opened again, and how seldom at the end where that fails too."""


class Storage:
    """What all partitions of a broker share. `epoch` counts the starts of the broker."""

    __slots__ = ("clock", "config", "disk", "durability", "epoch", "health", "unpacking")

    def __init__(self, config: Config, disk: Disk, clock: NodeClock, durability: Durability) -> None:
        self.config = config
        self.disk = disk
        self.clock = clock
        self.durability = durability
        self.health = DiskHealth(clock, disk.directory)
        self.epoch = 0
        self.unpacking = Gate(UNPACKED_AT_ONCE)
        """Where everything waits that may need a whole batch in memory without its compression."""


class Topic:
    """One topic. `partitions` is indexed by partition number."""

    __slots__ = ("_storage", "config", "is_internal", "name", "partitions", "topic_id")

    def __init__(self, storage: Storage, name: str, topic_id: bytes, config: TopicConfig) -> None:
        self._storage = storage
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.partitions: list[Partition] = []
        self.is_internal = name in INTERNAL

    def partition(self, index: int) -> Partition:
        """Return a partition by its number. Raises KafkaError."""
        if not 0 <= index < len(self.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partitions[index]

    def extend(self, partitions: int, epoch: int) -> None:
        """Add partitions up to a number of them; `epoch` is the broker's at their creation."""
        for index in range(len(self.partitions), partitions):
            self.partitions.append(Partition(self._storage, self, index, epoch))


@dataclass(slots=True, eq=False)
class Partition:
    """A partition of `topic`. Appends go through `append`, so that readers and flushes learn of them."""

    _storage: Storage
    topic: Topic
    index: int
    created_epoch: int
    directory: str = field(init=False)
    is_deleted: bool = False
    flushes: bool = False
    """Whether a response waits for fsync. This and the limits are known once the log is open."""
    max_ahead_ms: int = 0
    """How far ahead of our clock a producer's timestamps may be, and below how far behind it."""
    max_behind_ms: int = 0
    checks_records: bool = False
    """Whether the records of a produced batch are walked through, whatever the cleanup policy."""
    max_unpacked_bytes: int = 0
    """How many bytes the records of a produced batch may have without compression."""
    waiters: dict[Waiter, None] = field(default_factory=dict)
    on_lost: Callable[[], None] | None = None
    """Called when records that were appended may be lost, by a failed flush: they are neither read nor acknowledged."""
    _log: PartitionLog | None = None
    _reopen_ms: int = 0
    """When a log that failed is opened again; 0 while it works."""
    _reopen_wait_ms: int = REOPEN_MS

    def __post_init__(self) -> None:
        self.directory = f"{self.topic.name}-{self.index}"

    @property
    def unpacking(self) -> Gate:
        """The gate of what reads compressed batches."""
        return self._storage.unpacking

    @property
    def leader_epoch(self) -> int:
        """How often the broker has started since the partition was created."""
        return self._storage.epoch - self.created_epoch

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Raise KafkaError unless a client's epoch, -1 if it gave none, is the partition's (KIP-320)."""
        if current_leader_epoch < 0:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        if current_leader_epoch > self.leader_epoch:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    @property
    def open_size(self) -> int:
        """Bytes of the log; 0 where it was not opened yet, which would take time."""
        return 0 if self._log is None else self._log.size

    @property
    def log(self) -> PartitionLog:
        """The open log, or the failed one as long as it cannot be opened again. Raises StorageError."""
        if self._log is None:
            storage, topic_id = self._storage, self.topic.topic_id
            config, now_ms = self._configure(), storage.clock.now_ms
            self._log = PartitionLog.open(
                storage.disk, self.directory, config, now_ms, topic_id=topic_id, report=log.error
            )
            if self._log.recovery is not None and (sentence := self._log.recovery.sentence):
                log.warning("recovered %s after it was not closed: %s", self.directory, sentence)
        elif self._log.failure is not None:
            self._reopen()
        return self._log

    def _reopen(self) -> None:
        """Open the log again if a failing disk has closed it to appends, unless it is too early or fails."""
        failed, now_ms = self._log, self._storage.clock.now_ms
        if failed is None or failed.failure is None:
            return
        self._reopen_later(now_ms)
        if now_ms < self._reopen_ms:
            return
        self._reopen_wait_ms = min(2 * self._reopen_wait_ms, LONGEST_REOPEN_MS)
        self._reopen_ms = now_ms + self._reopen_wait_ms
        self._storage.durability.lose(self)
        try:
            opened = failed.reopened(now_ms)
        except StorageError as error:
            log.error("%s takes no appends: %s", self.directory, error)
            return
        self._log = opened
        self._reopen_ms = 0
        found = "" if opened.recovery is None else opened.recovery.sentence
        log.warning("%s takes appends again, from offset %d on%s",
                    self.directory, opened.log_end_offset, f"; {found}" if found else "")  # fmt: skip

    @property
    def size(self) -> int:
        """Bytes of its segments; a log that is not open is not opened for it. Raises StorageError."""
        if self._log is not None:
            return self._log.size
        disk = self._storage.disk
        names = [name for name in disk.list(self.directory) if name.endswith(".log")]
        return sum(disk.open(f"{self.directory}/{name}").size for name in names)

    def _reopen_later(self, now_ms: int) -> None:
        if not self._reopen_ms:
            self._reopen_ms, self._reopen_wait_ms = now_ms + REOPEN_MS, REOPEN_MS

    def lose(self) -> None:
        """Note that records may be lost which were appended since the last flush."""
        self._reopen_later(self._storage.clock.now_ms)
        if self.on_lost is not None:
            self.on_lost()

    @property
    def may_have_files(self) -> bool:
        """Whether its directory is there, or may be there on a disk that fails."""
        try:
            return self._storage.disk.exists(self.directory)
        except StorageError:
            return True

    @property
    def opened(self) -> PartitionLog | None:
        """The log if it is open."""
        return self._log

    def append(self, batches: Sequence[Buffer], now_ms: int) -> Appended:
        """Append whole, checked batches. Raises StorageError; then nothing was appended."""
        storage = self._storage
        epoch, health = storage.epoch - self.created_epoch, storage.health
        try:
            if self.on_lost is not None and self._log is not None and (failure := self._log.failure) is not None:
                # To open it again unloads the groups from which this was decided: that waits until all is decided.
                storage.durability.postpone(self._reopen)
                raise StorageError(failure.errno, "it is not opened again yet", self.directory)
            appended = self.log.append(batches, leader_epoch=epoch, now_ms=now_ms)
        except StorageError as error:
            health.refused(error, sum(map(len, batches)))
            raise
        if health.is_failing:
            health.appended(sum(map(len, batches)))
        if self.flushes or self.waiters:
            storage.durability.appended(self, sum(map(len, batches)))
        return appended

    def reconfigure(self) -> None:
        """Apply changed settings of the topic or the broker."""
        if self._log is not None:
            config = self._configure()
            if config.is_durable and not self._log.config.is_durable:
                with suppress(StorageError):  # the log has noted it
                    self._log.flush()  # what a later flush may lose must not have been acknowledged before
            self._log.config = config

    def delete(self) -> None:
        """Close the log and remove its files. Fetches that wait for records are woken and find it gone."""
        self.is_deleted = True
        self._storage.durability.wake_fetches(self)
        opened, self._log = self._log, None
        if opened is not None:
            opened.delete()
        else:
            self._storage.disk.remove_directory(self.directory)

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
        self.checks_records = self._storage.config.kohort_produce_check_records
        self.max_unpacked_bytes = self._storage.config.kohort_produce_max_unpacked_bytes
        return LogConfig(
            **read_values(LogConfig, config),
            flush_policy="fsync" if self.flushes else "os",
            producer_id_expiration_ms=self._storage.config.producer_id_expiration_ms,
        )
