"""Each node gets one address of the gateway, which stays the same, and which something listens on."""

from __future__ import annotations

import pytest

from kohort.gateway.rewriting.broker_addresses import NoAddress
from kohort.gateway.rewriting.node_addresses import MOST_NODES, NamePerNode, NodeAddresses, PortPerNode


class Ports:
    """The ports of a machine, some of which are taken by others."""

    def __init__(self, *taken: int) -> None:
        self.taken = taken
        self.open: dict[int, tuple[int, str, int]] = {}

    def listen(self, port: int, node_id: int, host: str, own_port: int) -> None:
        if port in self.taken:
            raise OSError(98, "address in use")
        self.open[port] = (node_id, host, own_port)


def per_port(ports: Ports, fixed: dict[int, int] | None = None) -> NodeAddresses:
    return NodeAddresses(("gw", 9000), PortPerNode("gw", 9001, ports.listen, fixed))


def test_a_node_has_the_port_that_its_id_gives_and_it_is_listened_on_at_once() -> None:
    ports = Ports()
    addresses = per_port(ports)
    assert addresses.address_of(2, "b2", 9092) == ("gw", 9003)
    assert addresses.address_of(0, "b0", 9092) == ("gw", 9001)
    assert ports.open == {9003: (2, "b2", 9092), 9001: (0, "b0", 9092)}


def test_a_node_that_moves_keeps_its_port() -> None:
    ports = Ports()
    addresses = per_port(ports)
    addresses.address_of(2, "b2", 9092)
    assert addresses.address_of(2, "elsewhere", 9093) == ("gw", 9003)
    assert ports.open == {9003: (2, "elsewhere", 9093)}


def test_a_port_that_is_taken_is_replaced_by_the_next_that_is_free(caplog: pytest.LogCaptureFixture) -> None:
    addresses = per_port(Ports(9003, 9001))
    assert addresses.address_of(2, "b2", 9092) == ("gw", 9002)
    assert "node 2 has port 9002, since 9003 cannot be had: set its port in node_ports" in caplog.text
    assert addresses.address_of(1, "b1", 9092) == ("gw", 9004)


def test_a_node_id_beyond_all_ports_gets_the_next_that_is_free() -> None:
    assert per_port(Ports()).address_of(0x7FFFFFFF, "b", 9092) == ("gw", 9001)


def test_a_port_that_is_set_is_used_and_given_to_no_other_node() -> None:
    addresses = per_port(Ports(), {7: 9001})
    assert addresses.address_of(0, "b0", 9092)[1] != 9001
    assert addresses.address_of(7, "b7", 9092) == ("gw", 9001)


def test_a_port_that_is_set_and_taken_gives_no_address() -> None:
    with pytest.raises(NoAddress, match="port 9500 for node 7 cannot be listened on"):
        per_port(Ports(9500), {7: 9500}).address_of(7, "b7", 9092)


def test_a_gateway_in_front_of_itself_has_no_addresses() -> None:
    addresses = per_port(Ports())
    addresses.address_of(1, "b1", 9092)
    for own in (("gw", 9000), ("gw", 9002)):
        with pytest.raises(NoAddress, match="is the gateway itself"):
            addresses.address_of(3, *own)


def test_nodes_are_limited() -> None:
    addresses = NodeAddresses(("gw", 9), NamePerNode("b-$(nodeId).example", 9, lambda *_: None))
    for node_id in range(MOST_NODES):
        addresses.address_of(node_id, "b", 9092)
    with pytest.raises(NoAddress, match=f"{MOST_NODES} nodes have one already"):
        addresses.address_of(MOST_NODES, "b", 9092)
    assert len(addresses) == MOST_NODES


def test_a_name_per_node_leads_to_the_node() -> None:
    learned: dict[int, tuple[str, int]] = {}
    names = NamePerNode(
        "broker-$(nodeId).Kafka.example.com", 9443, lambda i, host, port: learned.update({i: (host, port)})
    )
    addresses = NodeAddresses(("kafka.example.com", 9443), names)
    assert addresses.address_of(12, "b12", 9092) == ("broker-12.kafka.example.com", 9443)
    assert addresses.address_of(12, "c12", 9092) == ("broker-12.kafka.example.com", 9443)
    assert learned == {12: ("c12", 9092)}
    assert names.node_of("BROKER-12.kafka.example.com") == 12


@pytest.mark.parametrize(
    "name", ["", "broker-", "broker-.kafka", "broker-x.kafka", "broker-01.kafka", "broker--1.kafka", "broker-1.kafkas",
             "xbroker-1.kafka", "broker-99999999999.kafka", "broker-\u0661.kafka", "kafka"],
)  # fmt: skip
def test_a_name_that_is_no_node_s_leads_nowhere(name: str) -> None:
    assert NamePerNode("broker-$(nodeId).kafka", 9443, lambda *_: None).node_of(name) is None


def test_a_pattern_without_the_node_s_id_is_refused() -> None:
    with pytest.raises(ValueError, match=r"does not contain \$\(nodeId\) once"):
        NamePerNode("kafka.example.com", 9443, lambda *_: None)
