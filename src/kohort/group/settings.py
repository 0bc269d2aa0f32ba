"""What a coordinator is configured with: Kafka's group settings, and how to read a member's topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kohort.group.image import NoTopics, TopicImage

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long the JoinGroup of a new member may wait: it cannot heartbeat yet, and may be long gone (KAFKA-6538)."""


def no_topics(_metadata: bytes) -> frozenset[str] | None:
    """Read no topics: every subscription is opaque."""
    return None


def no_partitions(_blob: bytes) -> frozenset[tuple[str, int]] | None:
    """Read no partitions: every blob is opaque."""
    return None


def no_offer(_metadata: bytes) -> object | None:
    """Tell no two subscriptions alike but by their bytes."""
    return None


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of all groups of a broker.

    What members of type `consumer` say is opaque to the coordinator but for what these read, each None when it
    cannot: `topics_of` the topics of a subscription, `owned_of` the partitions that it says its member owns,
    `assigned_of` those of an assignment, `offer_of` all of a subscription but the generation it was written in.

    `sync_hold_ms` 0 holds no SyncGroup answer; `initial_quiet_ms` -1 lets a first round run its full delay.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    sync_hold_ms: int = 0
    initial_quiet_ms: int = -1
    topics_of: Callable[[bytes], frozenset[str] | None] = no_topics
    owned_of: Callable[[bytes], frozenset[tuple[str, int]] | None] = no_partitions
    assigned_of: Callable[[bytes], frozenset[tuple[str, int]] | None] = no_partitions
    offer_of: Callable[[bytes], object | None] = no_offer
    image: TopicImage = field(default_factory=NoTopics)
