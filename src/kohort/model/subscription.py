"""What a member reports about itself (the embedded `consumer` protocol's subscription)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kohort.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Subscription:
    """One member's subscription, as an assignor sees it.

    `topics` are names in the member's order; `owned` are the partitions that the member reports to own (v1+);
    `generation` is the one it owned them in, or -1 (v2+, KIP-792); `rack` is its rack, or None (v3+, KIP-881);
    `version` is the one it was written in: below 1 a member cannot report what it owns.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None
    version: int = 3


TOPICS_NAMED = 5
"""How many topics a difference names before it only counts them."""


def topic_difference(before: Collection[str], after: Collection[str]) -> str:
    """Return how a subscription has changed: `+added -dropped`, the first few by name."""
    changes = [f"+{topic}" for topic in sorted(set(after) - set(before))]
    changes += [f"-{topic}" for topic in sorted(set(before) - set(after))]
    more = f" and {len(changes) - TOPICS_NAMED} more" if len(changes) > TOPICS_NAMED else ""
    return " ".join(changes[:TOPICS_NAMED]) + more
