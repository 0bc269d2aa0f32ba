"""Settings of a partition's log: Kafka's topic settings about files and retention, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kohort.model.setting import Names, setting


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one partition log, by their names those of its topic. A size or time of -1 is no limit."""

    segment_bytes: int = setting(1 << 30, name="segment.bytes")
    segment_ms: int = setting(7 * 24 * 3600 * 1000, name="segment.ms")
    index_interval_bytes: int = setting(4096, name="index.interval.bytes")
    retention_bytes: int = setting(-1, name="retention.bytes")
    retention_ms: int = setting(7 * 24 * 3600 * 1000, name="retention.ms")
    max_message_bytes: int = setting(1048588, name="max.message.bytes")
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = setting(
        "CreateTime", name="message.timestamp.type"
    )
    cleanup_policy: Names = setting(("delete",), name="cleanup.policy")
    min_compaction_lag_ms: int = setting(0, name="min.compaction.lag.ms")
    max_compaction_lag_ms: int = setting((1 << 63) - 1, name="max.compaction.lag.ms")
    """How old a record may get before it is cleaned whatever the ratio, and a segment before it is closed."""
    min_cleanable_ratio: float = setting(0.5, name="min.cleanable.dirty.ratio")
    delete_retention_ms: int = setting(24 * 3600 * 1000, name="delete.retention.ms")
    flush_policy: Literal["os", "fsync"] = "os"
    """`os`: an append is done when the system has it. `fsync`: when `flush` has put it on the medium."""
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    """How long an idempotent producer is remembered after its last batch."""

    @property
    def deletes(self) -> bool:
        """Whether retention by size and time applies."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether the cleaner retains only the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """How old a segment gets."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def is_durable(self) -> bool:
        """Whether an append is done only when it is on the medium."""
        return self.flush_policy == "fsync"
