"""The cluster of a plan: hosts, network, brokers, a slot for each member, the producer and the administrator.

It has what there is and reports its state; `fault_injector` acts on it, and its world passes time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from kohort.assign.server.adapter import assign_by_name
from kohort.assign.server.catalog import server_assignors
from kohort.assign.spec import GroupSpec, TopicSpec
from kohort.gateway.assigning.assignments import Done, Intended
from kohort.gateway.assigning.edge import ASSIGNOR_MS
from kohort.group.coordinator_settings import ImageTopic, NoTopics
from kohort.log.transaction_records import encode_event
from kohort.model.ids import TopicPartition
from kohort.node.configuration.config import Config
from kohort.node.groups.settings_from_config import group_settings
from kohort.node.node import Node
from kohort.sim.kernel.broker_host import NodeHost
from kohort.sim.kernel.gateway_host import GatewayHost
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import Address, Network
from kohort.sim.kernel.rng import Rng
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import OUTPUT, OUTPUT_PARTITIONS, Observer
from kohort.sim.peers.committed_reader import CommittedReader
from kohort.sim.peers.peer import Peer
from kohort.sim.peers.peer_admin import Operator
from kohort.sim.peers.peer_connection import ClientPlace
from kohort.sim.peers.peer_producer import Feeder
from kohort.sim.peers.streams_application import StreamsApplication
from kohort.sim.scenario.producer_slot import ProducerSlot
from kohort.sim.scenario.world_plan import SECOND_US, MemberPlan, WorldPlan
from kohort.transaction.decisions import apply
from kohort.transaction.effects import TransactionStored, Why
from kohort.transaction.transaction import State, Transaction
from kohort.wire.visible_batches import visible_batches

DELAYS_US = (0, 0, 0, 30_000, 400_000, 1_000 * ASSIGNOR_MS, 2_000 * ASSIGNOR_MS)
"""How long a run takes; 0 is at once, before the request that it is about has been taken."""

FAILING = 0.05
"""The share of runs that fail."""


class SimulatedAssignors:
    """Runs a gateway's assignor for all groups (`AssignorRunner`): some runs fail, some take longer than they may.

    `topics` are those that exist, with their partitions.
    """

    def __init__(self, host: Host, random: Random, topics: Mapping[str, int], name: str) -> None:
        self._host = host
        self._random = random
        self._topics = topics
        (self._assignor,) = server_assignors([name]).values()

    def assignor_of(self, group_id: str) -> str:
        """Return the name of the assignor."""
        del group_id
        return self._assignor.name

    def assign(self, group_id: str, members: GroupSpec, topics: frozenset[str], done: Done) -> None:
        """Assign, now or later."""
        del group_id
        is_failing = self._random.random() < FAILING
        known = {topic: TopicSpec(self._topics[topic]) for topic in sorted(topics) if topic in self._topics}

        def run() -> None:
            intended = assign_by_name(self._assignor, GroupSpec(members.members, known))
            done("the simulator has it fail" if is_failing else Intended(intended, known), self._host.now_ms())

        delay_us = self._random.choice(DELAYS_US)
        if delay_us:
            self._host.after_us(delay_us, run)
        else:
            run()


PORT = 9092
GATEWAY = "gateway"
"""The name that all gateways share, as clients resolve it."""
LOOK_UP_US = 2_000
"""What a gateway's DescribeGroups takes."""


class SimulatedCluster:
    """Everything that a plan puts into a world; members are in `slots`.

    `value` makes the value of the n-th record, `key` its key of that.
    """

    def __init__(
        self,
        plan: WorldPlan,
        scheduler: Scheduler,
        observer: Observer,
        value: Callable[[int], bytes] = lambda number: b"%d" % number,
        key: Callable[[bytes], bytes | None] = lambda _: None,
    ) -> None:
        self.plan = plan
        self.scheduler = scheduler
        self.observer = observer
        self.rng = Rng(plan.seed)
        self.network = Network(scheduler, self.rng.stream("network"))
        self.addresses: tuple[Address, ...] = tuple(
            (GATEWAY, PORT + number) if plan.gateways else (name, PORT) for number, name in enumerate(plan.nodes, 1)
        )
        """Where clients connect to."""
        self._drifts = {step.subject: step for step in plan.steps if step.what == "drift"}
        self.nodes: dict[str, NodeHost] = {}
        for number, name in enumerate(plan.nodes, 1):
            settings = {**dict(plan.settings), "node.id": str(number)}
            disk = self.nodes[plan.nodes[0]].disk if self.nodes else None
            advertised = (GATEWAY, PORT + number) if plan.gateways else None
            self.nodes[name] = NodeHost(
                self.host(name), self.network, (name, PORT), self.rng.stream(name), observer, settings, disk, advertised
            )
        self.topics = {topic.name: topic.partitions for topic in plan.topics}
        """The topics that exist, with their partitions."""
        self.gateways = {name: self._gateway(name) for name in plan.gateways}
        for number in range(1, len(plan.nodes) + 1 if plan.gateways else 1):
            self.network.names[GATEWAY, PORT + number] = tuple((name, PORT + number) for name in plan.gateways)
        self.place = plan.nodes[0]
        """The node that has the disk now, whether it runs or not."""
        self.is_healed = False
        self.slots: dict[str, MemberSlot] = {}
        self.operator = Operator(self.host("admin"), self.network, self.running_address)
        self.feeder = Feeder(self.client_place("feed"), self.topics, value=value, key=key)
        self.producers = {
            each.name: ProducerSlot(each, self.host, self.network, self.addresses, self.rng, observer)
            for each in plan.producers
        }
        self.applications = {
            each.group: StreamsApplication(
                each.group, each.program, self._sources(each.group), each.records_per_s, scheduler
            )
            for each in plan.streams
        }
        """By group, what the members of streams groups run."""
        self.reader: CommittedReader | None = None
        """Of what the producers commit."""
        if plan.producers:
            self.reader = CommittedReader(self.client_place("audit"))

    def _sources(self, group: str) -> tuple[str, ...]:
        return next(member.config.topics for member in self.plan.members if member.group == group)

    def open(self, *, is_fed: bool = True) -> None:
        """Boot the broker with the plan's topics, and start the producer; if not `is_fed` it only writes on request."""
        self.node_host.start()
        for gateway in self.gateways.values():
            gateway.start()
        node = self.node_host.node
        assert node is not None, "a new disk has no objections"
        for topic in self.plan.topics:
            node.topics.create(topic.name, topic.partitions, {}, self.node_host.host.now_ms())
        self.feeder.start(is_feeding=is_fed)
        if self.reader is not None:
            self._open_output(node)

    def _open_output(self, node: Node) -> None:
        """Make the producers' topic, start them and their reader; transactional ids of long use have their records."""
        assert self.reader is not None, "who produces is read"
        now_ms = self.node_host.host.now_ms()
        segment_bytes = self.rng.stream("output").choice(("2048", "1048576"))
        node.topics.create(OUTPUT, OUTPUT_PARTITIONS, {"segment.bytes": segment_bytes}, now_ms)
        for slot in self.producers.values():
            if slot.plan.first_epoch >= 0:
                transactions = node.context.transactions
                transactions.ensure_topic()
                hosted = transactions.partitions[transactions.partition_of(slot.plan.name)]
                used = Transaction(
                    slot.plan.name,
                    node.state.next_producer_id(now_ms),
                    slot.plan.first_epoch,
                    slot.plan.timeout_ms,
                    State.COMPLETE_COMMIT,
                    frozenset(),
                    -1,
                    now_ms,
                    version=slot.plan.version,
                )
                event = TransactionStored(used, Why.MARKERS_WRITTEN)
                hosted.partition.append([encode_event(event, now_ms)], now_ms)
                apply(hosted.transactions, event)
            slot.start()
        self.reader.start()

    def _gateway(self, name: str) -> GatewayHost:
        routes = {(name, PORT + number): (node, PORT) for number, node in enumerate(self.plan.nodes, 1)}
        settings = group_settings(
            Config({**dict(self.plan.settings), "kohort.group.sync.hold.ms": "1000"}), _Topics(self)
        )
        host, assignor = self.host(name), self.plan.edge_assignor
        runner = None
        if assignor:
            runner = SimulatedAssignors(host, self.rng.stream(f"{name}/assignor"), self.topics, assignor)
        names = self.plan.gateways
        return GatewayHost(host, self.network, routes, settings, self._described, self.observer, runner, names)

    def _described(self, gateway: GatewayHost, group_id: str, generation: int | None) -> None:
        """Answer a gateway's look-up of a group, as a describe request would: a moment later, and by then it is old."""
        process = gateway.gateway
        assert process is not None, "a process that has ended asks nothing"

        def look() -> None:
            node = self.node_host.node
            if gateway.gateway is not process:
                return
            if node is None:
                self.scheduler.after(SECOND_US, look)
            elif generation is not None:
                classic = node.coordinator.describe(group_id)
                if classic is not None:
                    answer(lambda now_ms: process.groups.described(classic, generation, now_ms))
            elif process.groups.streams.group(group_id) is not None:
                streams = node.coordinator.streams_group(group_id)
                if streams is not None:
                    # Its members as they are now: an answer shows no later state of them.
                    found = replace(
                        streams,
                        members={key: replace(each, group_id=group_id) for key, each in streams.members.items()},
                    )
                    answer(lambda now_ms: process.groups.streams.described(found, now_ms))
            else:
                consumer = node.coordinator.describe_consumer(group_id)
                if consumer is not None:
                    answer(lambda now_ms: process.groups.consumer_described(consumer, now_ms))

        def answer(take: Callable[[int], None]) -> None:
            gateway.host.after_us(LOOK_UP_US // 2, lambda: take(gateway.host.now_ms()))

        self.scheduler.after(LOOK_UP_US // 2, look)

    def host(self, name: str) -> Host:
        """Return a new host with the clock that the plan gives it."""
        drift = self._drifts.get(name)
        if drift is None:
            return Host(name, self.scheduler)
        return Host(name, self.scheduler, offset_ms=drift.get("ahead_ms"), drift_ppm=drift.get("ppm"))

    def client_place(self, name: str) -> ClientPlace:
        """Return a new place for a client, with random numbers of its own."""
        return ClientPlace(self.host(name), self.network, self.addresses, self.rng.stream(name), self.observer)

    # -- its state

    @property
    def node_host(self) -> NodeHost:
        """The node that has the disk."""
        return self.nodes[self.place]

    def running_address(self) -> Address | None:
        """Return the address of the node that runs."""
        node_host = self.node_host
        return node_host.address if node_host.node is not None else None

    def count_topics(self) -> None:
        """Update `topics` from the node: responses to changes may come in another order, or not at all."""
        node = self.node_host.node
        if node is not None:
            found = {
                topic.name: len(topic.partitions)
                for topic in node.topics
                if not topic.name.startswith("__") and topic.name != OUTPUT
            }
            self.topics.clear()
            self.topics.update(sorted(found.items()))

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that exist."""
        return [TopicPartition(name, index) for name, count in self.topics.items() for index in range(count)]

    def log_end(self, partition: TopicPartition) -> int:
        """Return the log end offset of a partition; 0 where there is none."""
        node = self.node_host.node
        hosted = None if node is None else node.topics.partition(*partition)
        return 0 if hosted is None else hosted.log.log_end_offset

    def has_committed_record(self, partition: TopicPartition, offset: int) -> bool:
        """Return whether a record is at an offset, of no transaction or of a committed one: no marker and no gap."""
        node = self.node_host.node
        hosted = None if node is None else node.topics.partition(*partition)
        if hosted is None or not hosted.log.log_start_offset <= offset < hosted.log.last_stable_offset:
            return False
        log = hosted.log
        views = log.read(offset, 1, up_to=log.last_stable_offset)
        aborted = [(each.producer_id, each.first_offset) for each in log.aborted_transactions(offset, views)]
        seen = visible_batches(memoryview(b"".join(views)), offset, aborted, check_crcs=False).raw
        return any(header.base_offset <= offset <= header.last_offset for header, _ in seen)


class _Topics(NoTopics):
    """The topics of the node that runs, as a gateway's look-ups find them."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._seen: dict[str | bytes, ImageTopic] = {}

    def topic(self, name: str) -> ImageTopic | None:
        return self._found(name)

    def topic_by_id(self, topic_id: bytes) -> ImageTopic | None:
        return self._found(topic_id)

    def _found(self, key: str | bytes) -> ImageTopic | None:
        node = self._cluster.node_host.node
        if node is not None:
            self._seen.clear()
            for each in node.topics:
                found = ImageTopic(each.name, each.topic_id, len(each.partitions))
                self._seen[each.name] = self._seen[each.topic_id] = found
        return self._seen.get(key)


class MemberSlot:
    """The place of one member in the world: a host, and a process on it while there is one."""

    peer: Peer | None = None
    """The simulated client in it; None where a user's program runs."""

    def __init__(self, cluster: SimulatedCluster, plan: MemberPlan) -> None:
        self.name = plan.name
        self.group = plan.group
        self.plan = plan
        self.host = cluster.host(plan.name)
        self.has_started = False
        """Whether the world has ever seen it."""
        self.stays_away = False
        """Whether it does not come back."""
        self.is_retired = False
        """Whether nothing may bring it back."""
        self.is_closing = False
        """Whether the process is being closed."""
        self._cluster = cluster
        self._births = 0

    @property
    def is_running(self) -> bool:
        """Whether a process exists, even one that is being closed."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin a process, unless one runs."""
        raise NotImplementedError

    def close(self) -> None:
        """Ask the process to end in good order."""
        raise NotImplementedError

    def kill(self) -> None:
        """End the process where it stands."""
        raise NotImplementedError

    def _begin(self) -> Random:
        """Count a process that begins, and return its random numbers."""
        self.has_started = True
        self.is_closing = False
        self._births += 1
        return self._cluster.rng.stream(f"{self.name}/{self._births}")

    def retire(self) -> None:
        """Have the member end in good order, and never come back."""
        self.is_retired = self.stays_away = True
        self.close()

    def change(self) -> None:
        """Have the next process configured as a bounce would; a user's program stays as it is."""

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Have the member subscribe to other topics; a user's program subscribes by itself."""

    def behave(self) -> None:
        """Have the member's user make no more mistakes; a user's program is as it is."""


class PeerSlot(MemberSlot):
    """The slot of a simulated client; `variants` are its configurations after each bounce."""

    def __init__(self, cluster: SimulatedCluster, plan: MemberPlan, variants: tuple[MemberPlan, ...]) -> None:
        super().__init__(cluster, plan)
        self._variants = variants
        self._bounces = 0

    @property
    def is_running(self) -> bool:
        return self.peer is not None and not self.peer.is_over

    def start(self) -> None:
        if self.is_running or self.is_retired:
            return
        random, cluster = self._begin(), self._cluster
        kind, config = self.plan.kind, self.plan.config
        if cluster.is_healed:
            config = replace(config, overrun=0.0, raising=0.0, rejoins=0.0)
        place = ClientPlace(self.host, cluster.network, cluster.addresses, random, cluster.observer)
        self.peer = Peer(self.name, place, kind, config)
        self.peer.start()

    def close(self) -> None:
        if self.peer is not None and self.is_running:
            self.is_closing = True
            self.peer.close()

    def kill(self) -> None:
        if self.peer is not None:
            self.peer.kill()

    def change(self) -> None:
        """Have the next process configured as a bounce would."""
        self.plan = self._variants[self._bounces % len(self._variants)]
        self._bounces += 1

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Have the member subscribe to other topics, now and after a restart."""
        self.plan = self.plan._replace(config=replace(self.plan.config, topics=topics, pattern=None))
        if self.peer is not None and self.is_running:
            self.peer.subscribe(topics)

    def behave(self) -> None:
        """Have the member's user make no more mistakes."""
        if self.peer is not None:
            self.peer.reconfigure(overrun=0.0, raising=0.0, rejoins=0.0)
