"""GatewayPlan of an operator: how a cluster comes to a gateway, step by step, and the way back.

It is made of what the cluster shows, and nothing is changed. Settings are written whole, with what a broker has today,
since a list in Kafka's settings replaces the one before.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

from kohort.client.cluster.metadata import PartitionView, TopicView
from kohort.gateway.gateway_settings import check_advertised
from kohort.gateway.measure import PREFIX
from kohort.gateway.server.cluster_topology import OFFSETS_TOPIC, ClusterFacts, Endpoint, NodeListeners, matching
from kohort.model.setting import SettingsError

LISTENER = "GATEWAY"
"""The name of the listeners that the plan adds."""

FIRST_PORT = 9191
"""The gateway's port for the first node; each further node has the next one."""

LISTENER_PORT = 9099
"""The port of the added listener on each broker; the next free one where another listener of its host has it."""

DEFAULT_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class PlanError(Exception):
    """No plan can be made; the text has the reason and what to give."""


@dataclass(frozen=True, slots=True)
class GatewayStep:
    """One step: a sentence, and the settings or commands that carry it out."""

    title: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """The steps to a gateway, and those back."""

    steps: tuple[GatewayStep, ...]
    way_back: tuple[GatewayStep, ...]
    remarks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the plan as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the operator wants: the gateway's host name, its first port, and the coordinators' node ids."""

    gateway: str
    first_port: int = FIRST_PORT
    coordinators: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        try:
            check_advertised(self.gateway)
        except SettingsError as error:
            raise PlanError(str(error)) from None
        if self.gateway.count(":") == 1:
            raise PlanError(
                f"advertised = {self.gateway!r}: give the host name alone; the port is that of --first-port"
            )


def listener_plan(facts: ClusterFacts, wishes: Wishes) -> GatewayPlan:
    """Return the plan for mode `listener`. Raises PlanError."""
    nodes = sorted(facts.nodes, key=lambda node: node.node_id)
    ports = {node.node_id: _port_at_gateway(facts, node, wishes, at) for at, node in enumerate(nodes)}
    todo = [node for node in nodes if not any(matching(facts, node))]
    servers = ",".join(f"{wishes.gateway}:{ports[node.node_id]}" for node in nodes)
    steps: list[GatewayStep] = []
    taken = {(node.host, endpoint.port) for node in nodes for endpoint in node.listeners.values()}
    for node in todo:
        own = next(port for port in range(LISTENER_PORT, 65_536) if (node.host, port) not in taken)
        taken.add((node.host, own))
        lines = tuple(_with_listener(node, own, Endpoint(LISTENER, wishes.gateway, ports[node.node_id])))
        steps.append(GatewayStep(f"Add a listener to node {node.node_id}: in its server.properties", lines))
    if todo:
        steps.append(GatewayStep(f"Restart {_nodes(todo)}{_one_by_one(todo)}; clients continue as before"))
    protocols = {node.protocol(node.reached_by or "") for node in nodes}
    is_tls = any(each.endswith("SSL") for each in protocols)
    steps += _gateway_steps(facts.bootstrap_servers, wishes.gateway, "listener", servers, is_tls=is_tls)
    back = _clients_back(facts.bootstrap_servers, "changes")
    if todo:
        back += [
            GatewayStep(f"Take the listener off node {node.node_id}: in its server.properties", tuple(_present(node)))
            for node in todo
        ]
        back.append(GatewayStep(f"Restart {_nodes(todo)}{_one_by_one(todo)}"))
    remarks = () if todo else ("every node has a listener that advertises the gateway already",)
    return GatewayPlan(tuple(steps), tuple(back), remarks)


def rewrite_plan(bootstrap_servers: str, node_ids: Iterable[int], wishes: Wishes) -> GatewayPlan:
    """Return the plan for mode `rewrite`, in which brokers stay as they are. Raises PlanError."""
    address = f"{wishes.gateway}:{wishes.first_port}"
    last = wishes.first_port + 1 + max(node_ids)
    if last > 65_535:
        raise PlanError(
            f"a node would have port {last}: give another --first-port, or ports of nodes to the gateway (--node-ports)"
        )
    reach = GatewayStep(
        f"Let clients reach port {wishes.first_port} of {wishes.gateway}, where they begin, and"
        f" {wishes.first_port + 1} to {last}, where node n has {wishes.first_port + 1} + n"
    )
    steps = _gateway_steps(bootstrap_servers, address, "rewrite", address)
    return GatewayPlan((reach, *steps), tuple(_clients_back(bootstrap_servers, "parks")))


def coordinators_plan(facts: ClusterFacts, wishes: Wishes) -> GatewayPlan:
    """Return the plan for mode `coordinators`. Raises PlanError."""
    chosen = _coordinators(facts, wishes)
    offsets = next((topic for topic in facts.topics if topic.name == OFFSETS_TOPIC), None)
    ids = tuple(node.node_id for node in chosen)
    others = [node.node_id for node in facts.nodes if node.node_id not in ids]
    server = facts.bootstrap_servers
    steps: list[GatewayStep] = []
    data = _moved_away(facts.topics, ids, others)
    if data:
        title = f"Move {sum(map(len, data.values()))} partitions away from {_nodes(chosen)}"
        if OFFSETS_TOPIC in data:
            title += f"; those of {OFFSETS_TOPIC} come back when the gateway runs"
        steps.append(GatewayStep(title, _reassign("move-data.json", data, server)))
    for node, port in zip(chosen, range(wishes.first_port, wishes.first_port + len(chosen)), strict=True):
        steps.append(_advertise_step(facts, node, Endpoint("", wishes.gateway, port)))
    steps.append(GatewayStep(f"Restart {_nodes(chosen)}{_one_by_one(chosen)}; no group is there yet"))
    steps.append(_start_step(server, wishes.gateway, "coordinators"))
    if offsets is None or not offsets.partitions:
        steps.append(GatewayStep(f"Create {OFFSETS_TOPIC} on {_nodes(chosen)}", _create_offsets(ids, server)))
        back = []
    else:
        there = {view.partition: _rotated(ids, view.partition, len(view.replicas)) for view in _views(offsets)}
        today = {view.partition: view.replicas for view in _views(offsets)}
        title = f"Move {OFFSETS_TOPIC} to {_nodes(chosen)}; from now on groups go through the gateway"
        steps.append(GatewayStep(title, _reassign("move-offsets.json", {OFFSETS_TOPIC: there}, server)))
        clients = _clients_address(facts, chosen, others)
        if clients:
            steps.append(_measure_step(server, clients))
        back = [
            GatewayStep(f"Move {OFFSETS_TOPIC} back", _reassign("offsets-back.json", {OFFSETS_TOPIC: today}, server)),
        ]
    steps.append(
        GatewayStep(f"Cordon {_nodes(chosen)}, so that nothing else is placed there (KIP-1066)", _cordon(ids, server))
    )
    steps.append(_park_step(server, wishes.gateway, "coordinators"))
    back = [
        _observe_step("changes"),
        GatewayStep(f"Take the cordon off {_nodes(chosen)}", _cordon(ids, server, is_on=False)),
        *back,
        *(
            GatewayStep(f"Advertise node {node.node_id} itself again: in its server.properties", tuple(_present(node)))
            for node in chosen
        ),
        GatewayStep(f"Restart {_nodes(chosen)}{_one_by_one(chosen)}, and stop the gateway with SIGTERM"),
    ]
    remarks = [
        f"node {node.node_id} has no cordoned.log.dirs, which came with Kafka 4.3: leave the cordon out, and see to it"
        " that no partition is placed there"
        for node in chosen
        if node.is_cordoned is None
    ]
    return GatewayPlan(tuple(steps), tuple(back), tuple(remarks))


# -- the steps


def _gateway_steps(
    server: str, advertised: str, mode: str, servers: str, *, is_tls: bool = False
) -> Iterator[GatewayStep]:
    """Return the steps from the gateway's start until it parks, where clients get other `servers`."""
    yield _start_step(server, advertised, mode, " --listener-tls-certificate gateway.pem" * is_tls)
    yield _measure_step(server, servers.split(",")[0])
    yield GatewayStep("Move clients, one group after the other: in their settings", (f"bootstrap.servers={servers}",))
    yield _park_step(server, advertised, mode)


def _start_step(server: str, advertised: str, mode: str, tls: str = "") -> GatewayStep:
    title = f"Start the gateway on {advertised}. It observes all groups, and parks heartbeats of throwaway groups only"
    return GatewayStep(title, (_command(server, advertised, mode, tls, f"{PREFIX}-*"),))


def _park_step(server: str, advertised: str, mode: str) -> GatewayStep:
    title = (
        "Park heartbeats of the first groups, such as billing-*, and of more while kohort_gateway_fallbacks_total is 0"
    )
    return GatewayStep(title, (_command(server, advertised, mode, "", "billing-*"),))


def _command(server: str, advertised: str, mode: str, tls: str, groups: str) -> str:
    gateway = f"kohort gateway --bootstrap-server {server} --mode {mode} --advertised {advertised}{tls}"
    return f"{gateway} --park '{groups}' --metrics 127.0.0.1:9404"


def _measure_step(server: str, clients_address: str) -> GatewayStep:
    command = f"kohort gateway measure --bootstrap-server {server} --gateway {clients_address}"
    return GatewayStep("Measure what it gains on this cluster", (command,))


def _observe_step(what: str) -> GatewayStep:
    return GatewayStep(f"At once, for every group: start the gateway without --park; it then {what} nothing")


def _clients_back(server: str, what: str) -> list[GatewayStep]:
    return [
        _observe_step(what),
        GatewayStep("Move clients back: in their settings", (f"bootstrap.servers={server}",)),
        GatewayStep("Stop the gateway with SIGTERM when kohort_gateway_connections is 0"),
    ]


def _clients_address(facts: ClusterFacts, chosen: Sequence[NodeListeners], others: Sequence[int]) -> str | None:
    """Return where clients reach a node that has data."""
    name = _clients_listener(facts, chosen[0])
    endpoints = (node.advertised.get(name) for node in facts.nodes if node.node_id in others)
    return next((f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints if endpoint is not None), None)


def _advertise_step(facts: ClusterFacts, node: NodeListeners, at_gateway: Endpoint) -> GatewayStep:
    """Return the step in which a coordinator's clients' listener advertises the gateway."""
    name = _clients_listener(facts, node)
    advertised = {**node.advertised, name: Endpoint(name, at_gateway.host, at_gateway.port)}
    return GatewayStep(
        f"Let listener {name} of node {node.node_id} advertise the gateway: in its server.properties",
        (f"advertised.listeners={_listed(advertised.values())}",),
    )


def _clients_listener(facts: ClusterFacts, node: NodeListeners) -> str:
    """Return the name of a node's listener for clients. Raises PlanError where it has none of their own."""
    between = node.between_brokers or "PLAINTEXT"
    candidates = [name for name in node.advertised if name not in (between, *node.controllers)]
    if not candidates:
        raise PlanError(
            f"node {node.node_id} has one listener for clients and brokers, {between}: brokers would reach each other"
            " through the gateway. Give every broker a listener of its own for inter.broker.listener.name first, and"
            " name it in --bootstrap-server"
        )
    if node.reached_by in candidates:
        candidates.remove(node.reached_by)
        if not candidates:
            raise PlanError(
                f"{facts.bootstrap_servers} is the listener {node.reached_by}, which shall advertise the gateway: name"
                f" brokers on another one in --bootstrap-server, such as {between}"
            )
    return candidates[0]


def _with_listener(node: NodeListeners, port: int, at_gateway: Endpoint) -> Iterator[str]:
    if at_gateway.name in node.listeners:
        raise PlanError(
            f"node {node.node_id} has a listener {at_gateway.name} already, which advertises another name: give that"
            " name in --advertised, or rename the listener"
        )
    like = node.reached_by or "PLAINTEXT"
    beside = node.listeners.get(like)
    own = Endpoint(at_gateway.name, "" if beside is None else beside.host, port)
    protocols = {**_protocols(node), at_gateway.name: node.protocol(like)}
    yield f"listeners={_listed([*node.listeners.values(), own])}"
    yield f"advertised.listeners={_listed([*node.advertised.values(), at_gateway])}"
    yield "listener.security.protocol.map=" + ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())


def _present(node: NodeListeners) -> Iterator[str]:
    yield f"listeners={_listed(node.listeners.values())}"
    yield f"advertised.listeners={_listed(node.advertised.values())}"
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in _protocols(node).items())
    yield f"listener.security.protocol.map={protocols}"


def _protocols(node: NodeListeners) -> dict[str, str]:
    """Return the map of protocols as it is to be written: Kafka's default ends when it is set."""
    defaults = {} if node.protocols else {name: name for name in DEFAULT_PROTOCOLS}
    controllers = {name: node.protocol(name) for name in sorted(node.controllers)}
    return {**defaults, **controllers, **node.protocols}


def _port_at_gateway(facts: ClusterFacts, node: NodeListeners, wishes: Wishes, at: int) -> int:
    there = next(matching(facts, node), None)
    return wishes.first_port + at if there is None else there.port


def _coordinators(facts: ClusterFacts, wishes: Wishes) -> list[NodeListeners]:
    known = {node.node_id: node for node in facts.nodes}
    if not wishes.coordinators:
        raise PlanError(
            "mode coordinators needs two or three brokers for __consumer_offsets alone: name them with"
            f" --coordinators, such as --coordinators {','.join(map(str, islice(sorted(known, reverse=True), 2)))}"
        )
    if unknown := sorted(set(wishes.coordinators) - known.keys()):
        raise PlanError(f"there is no node {unknown[0]}: there are {', '.join(map(str, sorted(known)))}")
    if len(set(wishes.coordinators)) == len(known):
        raise PlanError("every node would be a coordinator, and none would hold data: name two or three of more")
    return [known[node_id] for node_id in sorted(set(wishes.coordinators))]


# -- commands of Apache Kafka's tools


def _reassign(file: str, partitions: Mapping[str, Mapping[int, Sequence[int]]], server: str) -> tuple[str, ...]:
    entries = [
        {"topic": topic, "partition": number, "replicas": list(replicas)}
        for topic, views in sorted(partitions.items())
        for number, replicas in sorted(views.items())
    ]
    text = json.dumps({"version": 1, "partitions": entries}, separators=(",", ":"))
    command = f"kafka-reassign-partitions.sh --bootstrap-server {server} --reassignment-json-file {file}"
    return f"cat > {file} <<'END'", text, "END", f"{command} --execute", f"{command} --verify"


def _create_offsets(ids: Sequence[int], server: str) -> tuple[str, ...]:
    replicas = min(3, len(ids))
    assignment = ",".join(":".join(map(str, _rotated(ids, number, replicas))) for number in range(50))
    return (
        f"kafka-topics.sh --bootstrap-server {server} --create --topic {OFFSETS_TOPIC}"
        f" --replica-assignment {assignment}"
        " --config cleanup.policy=compact --config segment.bytes=104857600 --config compression.type=producer",
    )


def _cordon(ids: Iterable[int], server: str, *, is_on: bool = True) -> tuple[str, ...]:
    change = "--add-config 'cordoned.log.dirs=*'" if is_on else "--delete-config cordoned.log.dirs"
    command = f"kafka-configs.sh --bootstrap-server {server} --entity-type brokers"
    return tuple(f"{command} --entity-name {node_id} --alter {change}" for node_id in ids)


def _moved_away(
    topics: Iterable[TopicView], ids: Sequence[int], others: Sequence[int]
) -> dict[str, dict[int, tuple[int, ...]]]:
    """Return new replicas for what lies on the coordinators, on the nodes with the fewest, in a steady order."""
    load = Counter(node for topic in topics for view in topic.partitions.values() for node in view.replicas)
    moved: dict[str, dict[int, tuple[int, ...]]] = {}
    for topic in sorted(topics, key=lambda each: each.name):
        for view in _views(topic):
            if not set(ids).intersection(view.replicas):
                continue
            replicas = [node for node in view.replicas if node not in ids]
            while len(replicas) < len(view.replicas) and len(replicas) < len(others):
                free = min((node for node in others if node not in replicas), key=lambda node: (load[node], node))
                load[free] += 1
                replicas.append(free)
            moved.setdefault(topic.name, {})[view.partition] = tuple(replicas)
    return moved


def _rotated(ids: Sequence[int], number: int, count: int) -> tuple[int, ...]:
    """Return replicas of one partition, led by each node in turn."""
    return tuple(ids[(number + at) % len(ids)] for at in range(min(count, len(ids))))


def _views(topic: TopicView) -> list[PartitionView]:
    return [view for _, view in sorted(topic.partitions.items())]


def _listed(endpoints: Iterable[Endpoint]) -> str:
    return ",".join(map(str, endpoints))


def _nodes(nodes: Sequence[NodeListeners]) -> str:
    return f"node{'s' * (len(nodes) != 1)} {', '.join(str(node.node_id) for node in nodes)}"


def _one_by_one(nodes: Sequence[NodeListeners]) -> str:
    return ", one after the other" if len(nodes) > 1 else ""
