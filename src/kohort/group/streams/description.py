"""What a group knows of the description of its topology (KIP-1331), and when a member is asked for it."""

from __future__ import annotations

from typing import NamedTuple

from kohort.model.topology_description import TopologyDescription

FIRST_WAIT_MS, LONGEST_WAIT_MS = 30_000, 3_600_000
"""How long a description is awaited before another member is asked for it, at first and at last, as in Kafka."""


class KnownDescription(NamedTuple):
    """What a group knows of its topology's description. It is needed for nothing, so that no record stores it.

    One member at a time was asked for it, `asks` times, the last one until `due_ms`; none is once it `is_refused`.
    """

    graph: TopologyDescription | None = None
    is_refused: bool = False
    asks: int = 0
    due_ms: int = 0

    def is_due(self, now_ms: int) -> bool:
        """Whether a member should be asked for it."""
        return self.graph is None and not self.is_refused and now_ms >= self.due_ms

    def asked(self, now_ms: int) -> KnownDescription:
        """Return the same after one more member was asked."""
        wait_ms = min(FIRST_WAIT_MS << min(self.asks, 10), LONGEST_WAIT_MS)
        return self._replace(asks=self.asks + 1, due_ms=now_ms + wait_ms)


NOT_DESCRIBED = KnownDescription()
"""What a group knows at first."""
