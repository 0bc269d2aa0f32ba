"""What a partition's log may be told: Kafka's topic settings about files and retention, with Kafka's defaults."""

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
    """`delete`, `compact` or both with a comma; only the part `delete` has an effect here."""
    flush_policy: Literal["os", "fsync"] = "os"
    """`os`: an append is done when the system has it. `fsync`: when `flush` has put it on the medium."""
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    """How long a silent idempotent producer is remembered."""

    @property
    def deletes(self) -> bool:
        """Whether retention by size and time applies."""
        return "delete" in self.cleanup_policy

    @property
    def is_durable(self) -> bool:
        """Whether an append is done only when it is on the medium."""
        return self.flush_policy == "fsync"
