"""Which port of the gateway stands for which node, by what the brokers' settings show."""

from __future__ import annotations

import pytest

from kohort.client.admin.admin import ConfigEntry, ConfigSource
from kohort.client.cluster.metadata import Broker, PartitionView, TopicView
from kohort.gateway.server.cluster_topology import (
    OFFSETS_TOPIC,
    ClusterFacts,
    NodeListeners,
    Topology,
    TopologyError,
    coordinators_topology,
    listener_topology,
    parse_listeners,
)
from kohort.gateway.server.node_port import Upstream


def node(
    node_id: int,
    advertised: str,
    listeners: str = "PLAINTEXT://:9092,GW://:9094",
    protocols: str = "PLAINTEXT:PLAINTEXT,GW:PLAINTEXT",
    cordoned: str = "",
    host: str = "",
) -> NodeListeners:
    values = {
        "listeners": listeners,
        "advertised.listeners": advertised,
        "listener.security.protocol.map": protocols,
        "cordoned.log.dirs": cordoned,
    }
    configs = {
        name: ConfigEntry(name, value, ConfigSource.STATIC_BROKER, True, False) for name, value in values.items()
    }
    return NodeListeners.read(Broker(node_id, host or f"kafka-{node_id}", 9092), configs)


def usual(node_id: int, **changes: str) -> NodeListeners:
    advertised = f"PLAINTEXT://kafka-{node_id}:9092,GW://gateway.example:{9190 + node_id}"
    return node(node_id, advertised, **changes)


def facts(
    *nodes: NodeListeners, advertised: str = "gateway.example", topics: tuple[TopicView, ...] = ()
) -> ClusterFacts:
    return ClusterFacts("kafka-1:9092", (advertised,), nodes, topics)


def topic(name: str, *replicas: tuple[int, ...]) -> TopicView:
    views = {number: PartitionView(number, nodes[0], 0, nodes, nodes) for number, nodes in enumerate(replicas)}
    return TopicView(name, partitions=views)


def test_listeners_are_read_as_kafka_writes_them() -> None:
    found = parse_listeners("plaintext://:9092, GW://[::1]:9094,SASL_SSL://kafka-1.example:9095,rubbish,A://b:99999")
    assert [str(each) for each in found.values()] == [
        "PLAINTEXT://:9092",
        "GW://[::1]:9094",
        "SASL_SSL://kafka-1.example:9095",
    ]
    assert parse_listeners(None) == {}


def test_each_node_has_the_port_that_it_advertises() -> None:
    assert listener_topology(facts(usual(1), usual(2))) == Topology(
        {9191: Upstream(1, "kafka-1", 9094), 9192: Upstream(2, "kafka-2", 9094)}
    )


def test_a_listener_bound_to_an_address_is_reached_there_and_with_its_protocol() -> None:
    bound = usual(1, listeners="PLAINTEXT://:9092,GW://kafka-1-eth1:9094", protocols="PLAINTEXT:PLAINTEXT,GW:SASL_SSL")
    assert listener_topology(facts(bound)).upstreams == {9191: Upstream(1, "kafka-1-eth1", 9094, is_tls=True)}


def test_an_advertised_name_may_have_a_port() -> None:
    assert listener_topology(facts(usual(1), usual(2), advertised="GATEWAY.example:9191".lower())).upstreams.keys() == {
        9191
    }


def test_a_node_without_such_a_listener_is_named() -> None:
    topology = listener_topology(facts(usual(1), node(2, "PLAINTEXT://kafka-2:9092")))
    assert topology.upstreams.keys() == {9191}
    [remark] = topology.remarks
    assert "node 2 has no listener that advertises gateway.example" in remark
    assert "advertised.listeners" in remark


def test_a_cluster_without_such_listeners_is_refused_with_the_setting_that_lacks() -> None:
    with pytest.raises(TopologyError, match=r"no broker's advertised\.listeners names gateway\.example") as refusal:
        listener_topology(facts(node(1, "PLAINTEXT://kafka-1:9092")))
    assert "node 1 advertises PLAINTEXT://kafka-1:9092" in str(refusal.value)


def test_bootstrap_servers_that_are_the_gateway_itself_are_refused() -> None:
    behind = node(1, "GW://gateway.example:9092", host="gateway.example")
    with pytest.raises(
        TopologyError, match=r"node 1 advertises gateway\.example only as .* if that is the gateway itself"
    ):
        listener_topology(facts(behind))


def test_a_listener_that_advertises_its_own_address_is_no_gateway() -> None:
    own = node(1, "PLAINTEXT://kafka-1:9092,GW://gateway.example:9094", listeners="GW://gateway.example:9094")
    with pytest.raises(TopologyError, match=r"node 1 advertises GW://gateway\.example:9094, where it listens itself"):
        listener_topology(facts(own))


def test_two_nodes_with_the_same_port_are_refused() -> None:
    with pytest.raises(TopologyError, match=r"node 1 at .* and node 2 at .* both advertise port 9191"):
        listener_topology(facts(usual(1), node(2, "GW://gateway.example:9191")))


def test_a_listener_that_is_not_shown_is_refused() -> None:
    with pytest.raises(TopologyError, match="its listeners have no GW"):
        listener_topology(facts(usual(1, listeners="PLAINTEXT://:9092")))


def test_coordinators_are_the_nodes_with_offsets_alone() -> None:
    cordoned = usual(4, cordoned="*")
    topics = (topic(OFFSETS_TOPIC, (4,), (4,)), topic("orders", (1,), (2,)))
    found = coordinators_topology(facts(node(1, "PLAINTEXT://kafka-1:9092"), cordoned, topics=topics))
    assert found == Topology({9194: Upstream(4, "kafka-4", 9094)})


def test_what_weakens_the_mode_is_remarked() -> None:
    topics = (topic(OFFSETS_TOPIC, (4,), (4, 1)), topic("orders", (1,), (4,)))
    remarks = coordinators_topology(facts(usual(4), topics=topics)).remarks
    assert [remark.split(":")[0] for remark in remarks] == [
        "1 of 2 partitions of __consumer_offsets have replicas on nodes 1, which do not advertise the gateway",
        "node 4 has 1 partitions of other topics, whose data pass through the gateway too",
        "node 4 is not cordoned, so new partitions may be placed there",
    ]


def test_offsets_that_are_elsewhere_are_remarked() -> None:
    found = coordinators_topology(facts(usual(4, cordoned="*"), topics=(topic(OFFSETS_TOPIC, (1,), (1, 4)),)))
    assert [remark.split(":")[0] for remark in found.remarks] == [
        "no partition of __consumer_offsets is on nodes 4 alone, which advertise the gateway"
    ]


def test_changes_are_put_in_words() -> None:
    before = Topology({1: Upstream(1, "a", 9), 2: Upstream(2, "b", 9)})
    after = Topology({2: Upstream(2, "c", 9), 3: Upstream(3, "d", 9)})
    assert after.changes_since(before) == [
        "port 1 no longer serves node 1 at a:9",
        "port 2 now serves node 2 at c:9, before node 2 at b:9",
        "port 3 now serves node 3 at d:9",
    ]
