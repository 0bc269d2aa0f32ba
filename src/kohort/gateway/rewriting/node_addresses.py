"""The address of the gateway for each node: a port of its own, or a host name that TLS clients send (SNI).

A node is placed when an answer shows it for the first time, before that answer passes: its clients find a gateway that
listens. Its place stays the same when its own address changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import chain

from kohort.gateway.rewriting.broker_addresses import NoAddress

log = logging.getLogger("kohort.gateway")

Address = tuple[str, int]

MOST_NODES = 2000
"""Nodes of a cluster at most; Apache Kafka's largest have a few hundred."""

NODE_ID_MARK = "$(nodeId)"
"""What stands for the node's id in a pattern of host names."""

_HIGHEST_PORT = 65_535


class NodeAddresses:
    """The nodes seen so far. `bootstrap` is the gateway's address for clients that know no node yet."""

    def __init__(self, bootstrap: Address, placement: PortPerNode | NamePerNode) -> None:
        self._placement = placement
        self._own = {bootstrap}
        self._nodes: dict[int, tuple[Address, Address]] = {}
        """By id, a node's own address and that of the gateway for it."""

    def __len__(self) -> int:
        return len(self._nodes)

    def address_of(self, node_id: int, host: str, port: int) -> Address:
        """Return the gateway's address for a node that has this address itself (`AddressOf`). Raises `NoAddress`."""
        real = (host, port)
        known = self._nodes.get(node_id)
        if known is not None and known[0] == real:
            return known[1]
        if real in self._own:
            raise NoAddress(
                f"node {node_id} has the address {host}:{port}, which is the gateway itself: name brokers in"
                " bootstrap_servers"
            )
        if known is not None:
            address = known[1]
            self._placement.moved(node_id, host, port)
        elif len(self._nodes) >= MOST_NODES:
            raise NoAddress(f"node {node_id} at {host}:{port} has no address here: {MOST_NODES} nodes have one already")
        else:
            address = self._placement.place(node_id, host, port)
            self._own.add(address)
        self._nodes[node_id] = (real, address)
        return address


class PortPerNode:
    """Node n has the port `first_port` + n, or the one that `ports` names, or else the next that is free.

    `listen` opens a port for a node with its own address at once, or changes where the port leads. It raises OSError.
    """

    def __init__(
        self,
        host: str,
        first_port: int,
        listen: Callable[[int, int, str, int], None],
        ports: Mapping[int, int] | None = None,
    ) -> None:
        self._host = host
        self._first_port = first_port
        self._listen = listen
        self._fixed = dict(ports or {})
        self._open: dict[int, int] = {}
        """By node, its port."""

    def place(self, node_id: int, host: str, port: int) -> Address:
        """Return the address for a node that was not seen before: a port is opened. Raises `NoAddress`."""
        own = self._opened_fixed(node_id, host, port) if node_id in self._fixed else self._opened(node_id, host, port)
        self._open[node_id] = own
        return self._host, own

    def moved(self, node_id: int, host: str, port: int) -> None:
        """A node has another address of its own: its port leads there."""
        self._listen(self._open[node_id], node_id, host, port)

    def _opened_fixed(self, node_id: int, host: str, port: int) -> int:
        own = self._fixed[node_id]
        try:
            self._listen(own, node_id, host, port)
        except OSError as error:
            raise NoAddress(f"port {own} for node {node_id} cannot be listened on: {error}") from error
        return own

    def _opened(self, node_id: int, host: str, port: int) -> int:
        taken = {*self._open.values(), *self._fixed.values()}
        wanted = self._first_port + node_id
        last_error: OSError | None = None
        behind_taken = self._first_port + len(taken)
        for own in chain([wanted], range(behind_taken, behind_taken + MOST_NODES)):
            if own in taken or own > _HIGHEST_PORT:
                continue
            try:
                self._listen(own, node_id, host, port)
            except OSError as error:
                last_error = error
                continue
            if own != wanted:
                log.warning(
                    "node %d has port %d, since %d cannot be had: set its port in node_ports, so that it is the same"
                    " after a restart and in other instances",
                    node_id, own, wanted,
                )  # fmt: skip
            return own
        raise NoAddress(f"no port from {self._first_port} on can be listened on for node {node_id}: {last_error}")


class NamePerNode:
    """All nodes have one port; node n has the host name that `pattern` gives with its id.

    `learned` gets each node with its own address, also when that changes.
    """

    def __init__(self, pattern: str, port: int, learned: Callable[[int, str, int], None]) -> None:
        if pattern.count(NODE_ID_MARK) != 1:
            raise ValueError(f"{pattern!r} does not contain {NODE_ID_MARK} once, in the place of the node's id")
        self._before, _, self._after = pattern.lower().partition(NODE_ID_MARK.lower())
        self._port = port
        self._learned = learned

    def place(self, node_id: int, host: str, port: int) -> Address:
        """Return a node's name and the port of all."""
        self._learned(node_id, host, port)
        return f"{self._before}{node_id}{self._after}", self._port

    def moved(self, node_id: int, host: str, port: int) -> None:
        """A node has another address of its own."""
        self._learned(node_id, host, port)

    def node_of(self, server_name: str) -> int | None:
        """Return the node that a client's server name means, None where it means none."""
        name = server_name.lower()
        digits = name[len(self._before) : len(name) - len(self._after)]
        if not name.startswith(self._before) or not name.endswith(self._after):
            return None
        if len(digits) > 10 or not digits.isascii() or not digits.isdigit() or digits != str(int(digits)):
            return None
        return int(digits)
