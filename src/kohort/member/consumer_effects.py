"""What a member of the consumer protocol (KIP-848) asks of the world, beside what `effects` has for both protocols."""

from __future__ import annotations

from dataclasses import dataclass

from kohort.model.id_partitions import IdPartitions
from kohort.model.ids import TopicPartition

Lags = tuple[tuple[TopicPartition, int], ...]
"""How far each standby copy is behind, in records, by partition."""


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """Send ConsumerGroupHeartbeat; the answer names its `number`. What is None has not changed since it was said.

    `member_epoch` is 0 to join, -1 and -2 to leave. `regex` is empty where the broker is to forget one.
    """

    number: int
    member_id: str
    member_epoch: int
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    rack: str | None = None
    owned: IdPartitions | None = None
    lags: Lags | None = None
    reason: str = ""
    cause: str = ""

    @property
    def is_leave(self) -> bool:
        """Whether this is the last the coordinator hears of the member for now."""
        return self.member_epoch < 0


@dataclass(frozen=True, slots=True)
class HurryHeartbeat:
    """Have the heartbeat that is under way answered now: there is something to say, and its broker may keep it."""


@dataclass(frozen=True, slots=True)
class NameTopics:
    """Find the names of these topics, and of no others that were asked for before: `TopicsSeen` tells them."""

    topic_ids: frozenset[bytes]


ConsumerEffect = ConsumerHeartbeat | HurryHeartbeat | NameTopics
