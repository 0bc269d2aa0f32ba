"""A consumer's identity in its group, as a producer needs it to commit offsets in a transaction (KIP-447)."""

from __future__ import annotations

from typing import NamedTuple


class GroupMetadata(NamedTuple):
    """Who a consumer is in its group; generation -1 before it has joined, in the consumer protocol the member epoch."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
