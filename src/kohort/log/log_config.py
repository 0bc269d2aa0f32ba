"""Settings of a partition's log: Kafka's topic settings about files and retention, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one partition log. A size or time of -1 is no limit."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * 3600 * 1000
    max_message_bytes: int = 1048588
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    cleanup_policy: str = "delete"
    """`delete`, `compact` or both with a comma."""
    min_compaction_lag_ms: int = 0
    """How young a record may be for the cleaner to touch it."""
    max_compaction_lag_ms: int = (1 << 63) - 1
    """How old a record may get before it is cleaned whatever the ratio, and a segment before it is closed."""
    min_cleanable_ratio: float = 0.5
    delete_retention_ms: int = 24 * 3600 * 1000
    """How long a tombstone stays for readers to see, once what it deletes is gone."""
    flush_policy: Literal["os", "fsync"] = "os"
    """`os`: an append is done when the system has it. `fsync`: when `flush` has put it on the medium."""
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    """How long a silent idempotent producer is remembered."""

    @property
    def deletes(self) -> bool:
        """Whether retention by size and time applies."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether the cleaner keeps only the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """How old a segment gets."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def is_durable(self) -> bool:
        """Whether an append is done only when it is on the medium."""
        return self.flush_policy == "fsync"
