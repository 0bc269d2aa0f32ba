"""The graph of a Kafka Streams program as a text."""

from __future__ import annotations

from kohort.model.topology_description import PROCESSOR, SINK, SOURCE, DescribedNode, TopologyDescription


def test_program_is_shown_as_kafka_streams_shows_it() -> None:
    """Nodes at which more paths begin come first, and those of a circle, which no program has, last."""
    nodes = (
        DescribedNode("a-sink", SINK),
        DescribedNode("filter", PROCESSOR, successors=("a-sink", "table")),
        DescribedNode("from", SOURCE, source_topics=("orders", "more"), successors=("filter",)),
        DescribedNode("table", PROCESSOR, stores=("s",), successors=("to",)),
        DescribedNode("to", SINK, sink_topic="sums"),
        DescribedNode("x", PROCESSOR, successors=("x", "lost")),
    )
    rates = DescribedNode("rates", SOURCE, source_topics=("r",), successors=("known",))
    known = DescribedNode("known", PROCESSOR, stores=("k",))
    graph = TopologyDescription((("0", nodes),), ((rates, known),))
    assert str(graph).splitlines() == [
        "Topologies:",
        "   Sub-topology: 0",
        "    Source: from (topics: [more, orders])",
        "      --> filter",
        "    Processor: filter (stores: [])",
        "      --> table, a-sink",
        "      <-- from",
        "    Processor: table (stores: [s])",
        "      --> to",
        "      <-- filter",
        "    Sink: a-sink (extractor class: unknown)",
        "      <-- filter",
        "    Sink: to (topic: sums)",
        "      <-- table",
        "    Processor: x (stores: [])",
        "      --> lost, x",
        "      <-- x",
        "",
        "  Sub-topology: 1 for global store (will not generate tasks)",
        "    Source: rates (topics: [r])",
        "      --> known",
        "    Processor: known (stores: [k])",
        "      --> none",
        "      <-- rates",
    ]
