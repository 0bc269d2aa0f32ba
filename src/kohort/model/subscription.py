"""What a member tells its group about itself (the embedded `consumer` protocol's subscription)."""

from __future__ import annotations

from dataclasses import dataclass

from kohort.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Subscription:
    """One member's subscription, as an assignor sees it.

    `topics` are names in the member's order; `owned` are the partitions that the member says it owns (v1+);
    `generation` is the one it owned them in, or -1 (v2+, KIP-792); `rack` is its rack, or None (v3+, KIP-881);
    `version` is the one it was written in: below 1 a member cannot say what it owns.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None
    version: int = 3
