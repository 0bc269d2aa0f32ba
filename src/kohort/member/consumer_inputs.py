"""What happens to a member of the consumer protocol (KIP-848), beside what `inputs` has for both protocols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.model.errors import ErrorCode
from kohort.model.id_partitions import IdPartitions
from kohort.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatAnswered:
    """The answer to the heartbeat of that number. `assignment` is None where it is what the member knows already."""

    number: int
    error: ErrorCode
    text: str | None = None
    member_epoch: int = 0
    interval_ms: int = 5_000
    assignment: IdPartitions | None = None


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """The cluster's topics by id, as far as they concern the member; `gone` are ids that it says do not exist."""

    names: Mapping[bytes, str] = field(default_factory=dict)
    gone: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class LagsReported:
    """The user says how far each of its standby copies is behind."""

    lags: Mapping[TopicPartition, int]


ConsumerInput = ConsumerHeartbeatAnswered | TopicsSeen | LagsReported
