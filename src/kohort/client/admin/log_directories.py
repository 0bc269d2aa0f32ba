"""Directories of brokers and the sizes of the logs in them, as the admin client returns them (KIP-113, KIP-827)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.client.errors import raise_refusal
from kohort.model.errors import ErrorCode, error_for
from kohort.model.ids import TopicPartition
from kohort.wire.messages import DescribeLogDirsResponse


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """One directory of a broker: its path there, the bytes of its volume, and the bytes of each log in it.

    `error` is KAFKA_STORAGE_ERROR where the broker cannot use it, else NONE. The bytes of the volume are None where the
    broker does not send them (before Kafka 3.3).
    """

    path: str
    error: ErrorCode
    total_bytes: int | None
    usable_bytes: int | None
    sizes: Mapping[TopicPartition, int]


def log_directories(response: DescribeLogDirsResponse, address: str) -> list[LogDirectory]:
    """Return the directories of a broker's answer. Raises its `KafkaError`."""
    raise_refusal(response.error_code, f"the log directories of {address} cannot be described")
    return [
        LogDirectory(
            result.log_dir,
            error_for(result.error_code),
            result.total_bytes if result.total_bytes >= 0 else None,
            result.usable_bytes if result.usable_bytes >= 0 else None,
            {
                TopicPartition(topic.name, entry.partition_index): entry.partition_size
                for topic in result.topics
                for entry in topic.partitions
                if not entry.is_future_key  # a copy on its way to another directory
            },
        )
        for result in response.results
    ]
