"""What a coordinator is configured with: Kafka's group settings, and how to read a member's topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long the JoinGroup of a new member may wait: it cannot heartbeat yet, and may be long gone (KAFKA-6538)."""


def no_topics(_metadata: bytes) -> frozenset[str] | None:
    """Read no topics: every subscription is opaque."""
    return None


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of all groups of a broker.

    `topics_of` returns the topics that the metadata of a `consumer` member subscribes to, or None when it cannot be
    read: what a member says is opaque to the coordinator but for this.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    topics_of: Callable[[bytes], frozenset[str] | None] = no_topics
