"""How members take part in a group, and what a restart of one costs."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """How a member takes part."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"
    CONSUMER = "consumer"


COOPERATIVE = frozenset({"cooperative-sticky", "capacity"})
"""Client-side assignors whose members keep their partitions through a rebalance, if they offer no eager one."""

PREDICTABLE = frozenset({"range", "roundrobin", "sticky"}) | COOPERATIVE
"""Client-side assignors of which it is known what they do."""


def is_predictable(assignor: str) -> bool:
    """Whether it is known what a client-side assignor does."""
    return assignor in PREDICTABLE


class Cost(NamedTuple):
    """What is expected of one restart. `moves` counts each time a partition goes from one owner to another."""

    moves: int
    unowned_partition_s: float
    """By the coordinator's books."""
    unread_partition_s: float
    """As members see it: who is away reads nothing, whatever it owns."""
