"""The description of a topology (KIP-1331): the whole graph of a program, as its members upload it for people."""

from __future__ import annotations

from typing import NamedTuple

FIRST_WAIT_MS, LONGEST_WAIT_MS = 30_000, 3_600_000
"""How long a description is awaited before another member is asked for it, at first and at last, as in Kafka."""


class DescribedNode(NamedTuple):
    """One node of the graph; `node_type` is Kafka's number of a source, processor or sink."""

    name: str
    node_type: int
    source_topics: tuple[str, ...] = ()
    sink_topic: str | None = None
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()


class TopologyDescription(NamedTuple):
    """A graph: the nodes of each subtopology by its id, and source and processor of each global store."""

    subtopologies: tuple[tuple[str, tuple[DescribedNode, ...]], ...] = ()
    global_stores: tuple[tuple[DescribedNode, DescribedNode], ...] = ()


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
