"""Topology of the cluster behind a gateway: which node's listener stands behind which port of the gateway.

Brokers show it themselves: a listener whose `advertised.listeners` entry names the gateway is served on the advertised
port, and its upstream address is the node's own port of that listener. What a mode lacks is a sentence that names the
setting; what merely weakens it is a remark.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kohort.gateway.gateway_settings import Mode
from kohort.gateway.server.node_port import Upstream
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.printable import printable

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.client.admin.admin import ConfigEntry
    from kohort.client.cluster.metadata import Broker, TopicView

OFFSETS_TOPIC = "__consumer_offsets"

_LISTENER = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9a-fA-F:.%]*\]|[^:/\[\],]*):(\d{1,5})")
_EVERYWHERE = ("", "0.0.0.0", "::", "0:0:0:0:0:0:0:0")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class TopologyError(Exception):
    """The cluster is not set up for the mode; the text names the setting and what it lacks."""


class Endpoint(NamedTuple):
    """One entry of `listeners` or `advertised.listeners`."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def parse_listeners(text: str | None) -> dict[str, Endpoint]:
    """Return the entries of `listeners` or `advertised.listeners` by name; what is none is left out."""
    found = (_LISTENER.fullmatch(entry.strip()) for entry in (text or "").split(","))
    entries = (Endpoint(each[1].upper(), each[2].strip("[]"), int(each[3])) for each in found if each is not None)
    return {entry.name: entry for entry in entries if entry.port < 65_536}


@dataclass(frozen=True, slots=True)
class NodeListeners:
    """What a broker's settings show of its listeners. `host` and `port` are where the gateway reached it."""

    node_id: int
    host: str
    port: int
    listeners: Mapping[str, Endpoint]
    advertised: Mapping[str, Endpoint]
    protocols: Mapping[str, str]
    """By listener, its security protocol."""
    controllers: frozenset[str] = frozenset()
    """The listeners of the controllers."""
    between_brokers: str = ""
    """The listener that brokers use among themselves."""
    is_cordoned: bool | None = None
    """Whether no partition is placed on it any more (KIP-1066); None before Kafka 4.3."""

    @staticmethod
    def read(broker: Broker, configs: Mapping[str, ConfigEntry]) -> NodeListeners:
        """Return what DescribeConfigs of a broker shows."""

        def value(name: str) -> str:
            entry = configs.get(name)
            return (entry.value or "") if entry is not None else ""

        listeners = parse_listeners(value("listeners"))
        advertised = parse_listeners(value("advertised.listeners"))
        pairs = (pair.partition(":") for pair in value("listener.security.protocol.map").split(","))
        protocols = {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs if protocol}
        return NodeListeners(
            broker.node_id,
            broker.host,
            broker.port,
            listeners,
            advertised or listeners,  # Kafka's default
            protocols,
            frozenset(name.strip().upper() for name in value("controller.listener.names").split(",") if name.strip()),
            value("inter.broker.listener.name").upper(),
            bool(value("cordoned.log.dirs")) if "cordoned.log.dirs" in configs else None,
        )

    @property
    def reached_by(self) -> str | None:
        """The name of the listener by which the gateway reached the node."""
        for endpoint in self.advertised.values():
            if (endpoint.host, endpoint.port) == (self.host, self.port):
                return endpoint.name
        return None

    def protocol(self, name: str) -> str:
        """Return the security protocol of a listener."""
        return self.protocols.get(name, name if name in _PROTOCOLS else "PLAINTEXT")

    def upstream(self, name: str) -> Upstream | None:
        """Return the real address of a listener, or None where `listeners` does not show it."""
        own = self.listeners.get(name)
        if own is None:
            return None
        host = self.host if own.host in _EVERYWHERE else own.host
        return Upstream(self.node_id, host, own.port, is_tls=self.protocol(name).endswith("SSL"))

    def __str__(self) -> str:
        return f"node {self.node_id} advertises {', '.join(map(str, self.advertised.values())) or 'nothing'}"


@dataclass(frozen=True, slots=True)
class Topology:
    """What the gateway serves: the upstream of each port, and what an operator should know about it."""

    upstreams: Mapping[int, Upstream]
    """By port to listen on."""
    remarks: tuple[str, ...] = ()

    def changes_since(self, before: Topology) -> list[str]:
        """Return what is different from `before`, in words."""
        changes = []
        for port in sorted(before.upstreams.keys() | self.upstreams.keys()):
            old, new = before.upstreams.get(port), self.upstreams.get(port)
            if old is None:
                changes.append(f"port {port} now serves {new}")
            elif new is None:
                changes.append(f"port {port} no longer serves {old}")
            elif old != new:
                changes.append(f"port {port} now serves {new}, before {old}")
        return changes


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What the checks of a mode read."""

    bootstrap_servers: str
    advertised: tuple[str, ...]
    nodes: tuple[NodeListeners, ...]
    topics: tuple[TopicView, ...] = ()
    """All topics, where the mode needs them."""
    unseen: tuple[str, ...] = ()
    """Why the settings of some nodes could not be read, a sentence for each."""


def matching(facts: ClusterFacts, node: NodeListeners) -> Iterator[Endpoint]:
    """Return the listeners of a node that advertise the gateway.

    A listener that advertises its own address is none of them: the gateway may share a host with a broker.
    """
    for endpoint in _named(facts, node):
        if not _is_direct(node, endpoint):
            yield endpoint


def _named(facts: ClusterFacts, node: NodeListeners) -> Iterator[Endpoint]:
    """Return the listeners of a node that advertise a name of the gateway."""
    names = {name.lower() for name in facts.advertised}
    for endpoint in node.advertised.values():
        host = endpoint.host.lower()
        if host in names or f"{host}:{endpoint.port}" in names:
            yield endpoint


def _is_direct(node: NodeListeners, endpoint: Endpoint) -> bool:
    """Whether a listener advertises the address on which it listens, or on which the gateway reached the node."""
    upstream = node.upstream(endpoint.name)
    own = upstream is not None and (upstream.host.lower(), upstream.port) == (endpoint.host.lower(), endpoint.port)
    return own or (endpoint.host, endpoint.port) == (node.host, node.port)


# -- the modes


def listener_topology(facts: ClusterFacts) -> Topology:
    """Return the ports of mode `listener`: every node should have one. Raises TopologyError."""
    upstreams = _ports(facts)
    if not upstreams:
        raise TopologyError(_nothing_advertised(facts, "every broker"))
    lacking = [node for node in facts.nodes if not any(matching(facts, node))]
    remarks = tuple(
        f"node {node.node_id} has no listener that advertises {_names(facts)}, so clients behind the gateway cannot"
        f" reach its partitions: add one to its listeners and advertised.listeners ({node})"
        for node in lacking
    )
    return Topology(upstreams, remarks)


def coordinators_topology(facts: ClusterFacts) -> Topology:
    """Return the ports of mode `coordinators`: the nodes with `__consumer_offsets`. Raises TopologyError."""
    upstreams = _ports(facts)
    if not upstreams:
        raise TopologyError(_nothing_advertised(facts, "the brokers that hold only __consumer_offsets"))
    coordinators = {upstream.node_id for upstream in upstreams.values()}
    offsets = next((topic for topic in facts.topics if topic.name == OFFSETS_TOPIC), None)
    remarks: list[str] = []
    if offsets is None or not offsets.partitions:
        remarks.append(
            f"{OFFSETS_TOPIC} does not exist yet: create it on nodes {_ids(coordinators)} before the first group"
            " commits, or brokers place it anywhere (`kohort gateway plan` writes the command)"
        )
    else:
        elsewhere = [view for view in offsets.partitions.values() if not coordinators.issuperset(view.replicas)]
        if len(elsewhere) == len(offsets.partitions):
            remarks.append(
                f"no partition of {OFFSETS_TOPIC} is on nodes {_ids(coordinators)} alone, which advertise the gateway:"
                " no group is coordinated through it yet; reassign the topic (`kohort gateway plan` writes how)"
            )
        elif elsewhere:
            others = {node for view in elsewhere for node in view.replicas} - coordinators
            remarks.append(
                f"{len(elsewhere)} of {len(offsets.partitions)} partitions of {OFFSETS_TOPIC} have replicas on nodes"
                f" {_ids(others)}, which do not advertise the gateway: groups there pass it by; reassign them"
            )
    for node in facts.nodes:
        if node.node_id in coordinators:
            remarks += _coordinator_remarks(facts, node)
    return Topology(upstreams, tuple(remarks))


def _coordinator_remarks(facts: ClusterFacts, node: NodeListeners) -> Iterator[str]:
    others = sum(
        node.node_id in view.replicas
        for topic in facts.topics
        if topic.name != OFFSETS_TOPIC
        for view in topic.partitions.values()
    )
    if others:
        yield (
            f"node {node.node_id} has {others} partitions of other topics, whose data pass through the gateway too:"
            " move them to other nodes"
        )
    if node.is_cordoned is False:
        yield (
            f"node {node.node_id} is not cordoned, so new partitions may be placed there: set cordoned.log.dirs=* on it"
            " (KIP-1066, Kafka 4.3)"
        )


def _ports(facts: ClusterFacts) -> dict[int, Upstream]:
    found: dict[int, Upstream] = {}
    for node in facts.nodes:
        for endpoint in matching(facts, node):
            upstream = node.upstream(endpoint.name)
            if upstream is None:
                raise TopologyError(
                    f"node {node.node_id} advertises {endpoint}, and its listeners have no {endpoint.name}:"
                    " DescribeConfigs must show both settings"
                )
            other = found.get(endpoint.port)
            if other is not None and other != upstream:
                raise TopologyError(
                    f"{other} and {upstream} both advertise port {endpoint.port} of the gateway: each node needs a port"
                    f" of its own in advertised.listeners ({endpoint})"
                )
            found[endpoint.port] = upstream
    return found


def _nothing_advertised(facts: ClusterFacts, which: str) -> str:
    direct = [(node, endpoint) for node in facts.nodes for endpoint in _named(facts, node)]
    if direct and (direct[0][1].host, direct[0][1].port) == (direct[0][0].host, direct[0][0].port):
        return (
            f"node {direct[0][0].node_id} advertises {_names(facts)} only as {direct[0][1]}, by which"
            f" bootstrap_servers = {facts.bootstrap_servers} lead to it: if that is the gateway itself, name brokers on"
            " another listener, such as that of inter.broker.listener.name; if it is the broker,"
            f" {which} must have a listener more whose advertised.listeners entry is the gateway's"
        )
    if direct:
        node, endpoint = direct[0]
        return (
            f"node {node.node_id} advertises {endpoint}, where it listens itself: a gateway on that host needs another"
            " port, so give the listener another one in listeners or in advertised.listeners"
        )
    found = "; ".join(str(node) for node in facts.nodes)
    return (
        f"no broker's advertised.listeners names {_names(facts)}: {which} must have a listener that does, beside the"
        f" others (`kohort gateway plan` writes the settings). Found: {printable(found)}"
    )


def _names(facts: ClusterFacts) -> str:
    return " or ".join(facts.advertised)


def _ids(node_ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(node_ids)))


# -- looking at a cluster


async def look(admin: Admin, mode: Mode, bootstrap_servers: str, advertised: tuple[str, ...]) -> Topology:
    """Return the topology as the cluster shows it now. Raises TopologyError, KafkaError."""
    has_coordinators = mode is Mode.COORDINATORS
    facts = await cluster_facts(admin, bootstrap_servers, advertised, needs_topics=has_coordinators)
    topology = (coordinators_topology if has_coordinators else listener_topology)(facts)
    return replace(topology, remarks=facts.unseen + topology.remarks)


async def cluster_facts(
    admin: Admin, bootstrap_servers: str, advertised: tuple[str, ...], *, needs_topics: bool
) -> ClusterFacts:
    """Return what the cluster shows of its nodes. Raises TopologyError, KafkaError.

    A node that does not answer is left out as long as another one does.
    """
    view = await admin.describe_cluster()
    brokers = [view.brokers[node_id] for node_id in sorted(view.brokers)]
    answers = await asyncio.gather(*[_node_listeners(admin, broker) for broker in brokers], return_exceptions=True)
    nodes = [answer for answer in answers if isinstance(answer, NodeListeners)]
    failures = [answer for answer in answers if isinstance(answer, BaseException)]
    for failure in failures:
        if not nodes or not isinstance(failure, KafkaError | TopologyError):
            raise failure
    topics = tuple(await admin.list_topics()) if needs_topics else ()
    return ClusterFacts(bootstrap_servers, advertised, tuple(nodes), topics, tuple(map(str, failures)))


async def _node_listeners(admin: Admin, broker: Broker) -> NodeListeners:
    from kohort.client.admin.admin import ResourceType

    try:
        configs = await admin.describe_configs(ResourceType.BROKER, str(broker.node_id))
    except KafkaError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise TopologyError(
                f"node {broker.node_id} does not let this user see its listeners: allow DescribeConfigs on the cluster,"
                " or name another user in --command-config"
            ) from None
        raise
    return NodeListeners.read(broker, configs)


async def unresolvable(topology: Topology) -> list[str]:
    """Return a sentence for each upstream whose host name has no address."""
    loop = asyncio.get_running_loop()

    async def resolve(upstream: Upstream) -> str | None:
        try:
            await loop.getaddrinfo(upstream.host, upstream.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            return f"the host name of {upstream} cannot be resolved: {why}"
        return None

    found = await asyncio.gather(*map(resolve, topology.upstreams.values()))
    return [sentence for sentence in found if sentence is not None]
