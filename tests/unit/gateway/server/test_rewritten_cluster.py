"""Which node a connection to a gateway in mode `rewrite` is led to."""

from __future__ import annotations

import asyncio

import pytest

from kohort.gateway.server.node_port import Upstream
from kohort.gateway.server.rewritten_cluster import NodesInTurn, PortsOfNodes

ANY = asyncio.BaseTransport()


def ports_of_nodes(served: dict[int, Upstream] | None = None) -> PortsOfNodes:
    into = {} if served is None else served
    return PortsOfNodes(("gateway", 9000), into.__setitem__, {}, is_tls=True)


def test_the_port_of_a_node_leads_to_it_and_the_first_port_to_all_in_turn() -> None:
    served: dict[int, Upstream] = {}
    nodes = ports_of_nodes(served)
    for node_id in (2, 0, 5):
        nodes.addresses.address_of(node_id, f"b{node_id}", 9092)
    assert served[9003] == Upstream(2, "b2", 9092, is_tls=True)
    assert nodes.upstream_of(9003, ANY).node_id == 2
    assert [nodes.upstream_of(9000, ANY).node_id for _ in range(4)] == [0, 2, 5, 0]
    assert {port: upstream.node_id for port, upstream in nodes.upstreams().items()} == {
        9000: 0,
        9001: 0,
        9003: 2,
        9006: 5,
    }


def test_a_node_that_moves_is_reached_where_it_is() -> None:
    nodes = ports_of_nodes()
    nodes.addresses.address_of(1, "old", 9092)
    nodes.addresses.address_of(1, "new", 9093)
    assert nodes.upstream_of(9002, ANY) == nodes.upstream_of(9000, ANY) == Upstream(1, "new", 9093, is_tls=True)


def test_nodes_that_the_cluster_no_longer_shows_are_passed_over_until_an_answer_shows_them() -> None:
    nodes = ports_of_nodes()
    for node_id in (1, 2, 3):
        nodes.addresses.address_of(node_id, f"b{node_id}", 9092)
    nodes.nodes.note_present({1, 3})
    assert [nodes.upstream_of(9000, ANY).node_id for _ in range(3)] == [1, 3, 1]
    assert nodes.upstream_of(9003, ANY).node_id == 2, "its own port stays"
    nodes.addresses.address_of(2, "elsewhere", 9092)
    assert [nodes.upstream_of(9000, ANY).node_id for _ in range(3)] == [2, 3, 1]
    nodes.nodes.note_present(())
    assert nodes.upstream_of(9000, ANY).node_id == 2


def test_there_is_no_next_of_no_nodes() -> None:
    with pytest.raises(ValueError, match="empty"):
        NodesInTurn().next()
