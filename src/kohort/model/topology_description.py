"""The description of a topology (KIP-1331): the whole graph of a Kafka Streams program, for people.

Members upload it, and groups are described with it, in messages of the same shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

SOURCE, PROCESSOR, SINK = 1, 2, 3
"""Kafka's numbers for the types of nodes."""
_WORDS = {SOURCE: "Source", PROCESSOR: "Processor", SINK: "Sink"}


class DescribedNode(NamedTuple):
    """One node of the graph; `node_type` is Kafka's number of a source, processor or sink."""

    name: str
    node_type: int
    source_topics: tuple[str, ...] = ()
    sink_topic: str | None = None
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()


class TopologyDescription(NamedTuple):
    """A graph: the nodes of each subtopology by its id, and source and processor of each global store.

    As a text it is what `Topology.describe()` of Kafka Streams prints.
    """

    subtopologies: tuple[tuple[str, tuple[DescribedNode, ...]], ...] = ()
    global_stores: tuple[tuple[DescribedNode, DescribedNode], ...] = ()

    @classmethod
    def read(cls, sent: Any) -> TopologyDescription:
        """Return the description in a message."""
        subtopologies = tuple((each.subtopology_id, tuple(map(_node, each.nodes))) for each in sent.subtopologies)
        return cls(subtopologies, tuple((_node(each.source), _node(each.processor)) for each in sent.global_stores))

    def __str__(self) -> str:
        parts: list[tuple[str, Sequence[DescribedNode]]] = [*self.subtopologies]
        for number, pair in enumerate(self.global_stores, len(parts)):
            parts.append((f"{number} for global store (will not generate tasks)", pair))
        texts = ["\n".join((f"  Sub-topology: {name}", *_lines(nodes))) for name, nodes in parts]
        return "Topologies:\n " + "\n\n".join(texts)


def _node(each: Any) -> DescribedNode:
    topics, stores, successors = tuple(each.source_topics), tuple(each.stores), tuple(each.successors)
    return DescribedNode(each.name, each.node_type, topics, each.sink_topic, stores, successors)


def _lines(nodes: Sequence[DescribedNode]) -> Iterator[str]:
    """Yield nodes from sources to sinks, as Kafka Streams orders them: by how many paths begin at each."""
    before: dict[str, list[str]] = {node.name: [] for node in nodes}
    for node in nodes:
        for name in node.successors:
            before.setdefault(name, []).append(node.name)
    paths = _paths(nodes, before)

    def listed(names: Sequence[str]) -> str:
        return ", ".join(sorted(names, key=lambda name: (-paths.get(name, 0), name))) or "none"

    for node in sorted(nodes, key=lambda node: (-paths.get(node.name, 0), node.name)):
        about = f"stores: [{', '.join(sorted(node.stores))}]"
        if node.node_type == SOURCE:
            about = f"topics: [{', '.join(sorted(node.source_topics))}]"
        elif node.node_type == SINK:
            about = "extractor class: unknown" if node.sink_topic is None else f"topic: {node.sink_topic}"
        yield f"    {_WORDS.get(node.node_type, 'Node')}: {node.name} ({about})"
        if node.node_type != SINK:
            yield f"      --> {listed(node.successors)}"
        if node.node_type != SOURCE:
            yield f"      <-- {listed(before[node.name])}"


def _paths(nodes: Sequence[DescribedNode], before: dict[str, list[str]]) -> dict[str, int]:
    """Return how many paths begin at each node. Those of a circle, which no program has, are left out."""
    counts = {node.name: 1 for node in nodes}
    waiting = {node.name: sum(name in counts for name in node.successors) for node in nodes}
    ready = [name for name, count in waiting.items() if count == 0]
    known = {}
    while ready:
        name = ready.pop()
        known[name] = counts[name]
        for each in before[name]:
            counts[each] += counts[name]
            waiting[each] -= 1
            if waiting[each] == 0:
                ready.append(each)
    return known
