"""The world of a plan, set up: hosts, network, brokers, a seat for each member, whoever writes and administers.

It holds what there is and can say how it stands; what happens to it is `faults`' business, when is `run`'s.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.model.ids import TopicPartition
from kohort.sim.kernel.broker_host import NodeHost
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import Address, Network
from kohort.sim.kernel.rng import Draw
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.peers.peer import Peer
from kohort.sim.peers.peer_admin import Operator
from kohort.sim.peers.peer_producer import Feeder
from kohort.sim.scenario.world_plan import MemberPlan, Plan

PORT = 9092


class Seat:
    """One member's place in the world: a host, and a process on it while there is one."""

    def __init__(self, stage: Stage, plan: MemberPlan, variants: tuple[MemberPlan, ...]) -> None:
        self.name = plan.name
        self.group = plan.group
        self.plan = plan
        self.host = stage.host(plan.name)
        self.peer: Peer | None = None
        self.has_started = False
        """Whether the world has ever seen it."""
        self.stays_away = False
        """Whether it has gone for good."""
        self.is_retired = False
        """Whether nothing may bring it back."""
        self.is_closing = False
        """Whether the process is on its way out."""
        self._stage = stage
        self._variants = variants
        self._births = 0
        self._bounces = 0

    @property
    def is_running(self) -> bool:
        """Whether a process is there, even one that is on its way out."""
        return self.peer is not None and not self.peer.is_over

    def start(self) -> None:
        """Begin the process, unless one runs."""
        if self.is_running or self.is_retired:
            return
        self.has_started = True
        self.is_closing = False
        self._births += 1
        stage = self._stage
        random = stage.draw.stream(f"{self.name}/{self._births}")
        kind, config = self.plan.kind, self.plan.config
        if stage.is_healed:
            config = replace(config, overrun=0.0, raising=0.0, rejoins=0.0)
        self.peer = Peer(self.name, self.host, stage.network, stage.addresses, kind, random, stage.observer, config)
        self.peer.start()

    def close(self) -> None:
        """Ask the process to end in good order."""
        if self.peer is not None and not self.peer.is_over:
            self.is_closing = True
            self.peer.close()

    def kill(self) -> None:
        """End the process where it stands."""
        if self.peer is not None and not self.peer.is_over:
            self.peer.kill()

    def retire(self) -> None:
        """Have the member end in good order, and never come back."""
        self.is_retired = self.stays_away = True
        self.close()

    def change(self) -> None:
        """Have the next process configured as a bounce would."""
        self.plan = self._variants[self._bounces % len(self._variants)]
        self._bounces += 1

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Have the member want other topics, now and after a restart."""
        self.plan = self.plan._replace(config=replace(self.plan.config, topics=topics, pattern=None))
        if self.peer is not None and not self.peer.is_over:
            self.peer.subscribe(topics)

    def behave(self) -> None:
        """Have the member's user make no more mistakes."""
        if self.peer is not None:
            self.peer.reconfigure(overrun=0.0, raising=0.0, rejoins=0.0)


class Stage:
    """Everything that a plan puts into a world."""

    def __init__(self, plan: Plan, scheduler: Scheduler, observer: Observer) -> None:
        self.plan = plan
        self.scheduler = scheduler
        self.observer = observer
        self.draw = Draw(plan.seed)
        self.network = Network(scheduler, self.draw.stream("network"))
        self.addresses: tuple[Address, ...] = tuple((name, PORT) for name in plan.nodes)
        self._drifts = {step.subject: step for step in plan.steps if step.what == "drift"}
        self.nodes: dict[str, NodeHost] = {}
        for number, name in enumerate(plan.nodes, 1):
            settings = {**dict(plan.settings), "node.id": str(number)}
            disk = self.nodes[plan.nodes[0]].disk if self.nodes else None
            self.nodes[name] = NodeHost(
                self.host(name), self.network, (name, PORT), self.draw.stream(name), observer, settings, disk
            )
        self.place = plan.nodes[0]
        """The node that has the disk now, whether it runs or not."""
        self.topics = {topic.name: topic.partitions for topic in plan.topics}
        """The topics that there are, with their partitions."""
        self.is_healed = False
        self.is_fed = True
        """Whether records come by themselves."""
        self.seats = {
            member.name: self.seat(member, variants)
            for member, variants in zip(plan.members, plan.variants, strict=True)
        }
        self.operator = Operator(self.host("admin"), self.network, self.where)
        self.feeder = Feeder(
            self.host("feed"), self.network, self.addresses, self.draw.stream("feed"), observer, self.topics
        )

    def open(self) -> None:
        """Boot the broker with the plan's topics, and let records come."""
        node_host = self.nodes[self.place]
        node_host.start()
        assert node_host.node is not None, "a new disk has no objections"
        for topic in self.plan.topics:
            node_host.node.topics.create(topic.name, topic.partitions, {}, node_host.host.now_ms())
        self.feeder.start(is_feeding=self.is_fed)

    def seat(self, member: MemberPlan, variants: tuple[MemberPlan, ...]) -> Seat:
        """Return a place for a member of the plan."""
        return Seat(self, member, variants)

    def host(self, name: str) -> Host:
        """Return a new host with the clock that the plan gives it."""
        drift = self._drifts.get(name)
        if drift is None:
            return Host(name, self.scheduler)
        return Host(name, self.scheduler, offset_ms=drift.get("ahead_ms"), drift_ppm=drift.get("ppm"))

    # -- how it stands

    @property
    def node_host(self) -> NodeHost:
        """The node that has the disk."""
        return self.nodes[self.place]

    def where(self) -> Address | None:
        """Return the address of the node that runs."""
        node_host = self.node_host
        return node_host.address if node_host.node is not None else None

    def count_topics(self) -> None:
        """See which topics there are: whoever changed them may be answered in another order, or not at all."""
        node = self.node_host.node
        if node is not None:
            found = {topic.name: len(topic.partitions) for topic in node.topics if not topic.name.startswith("__")}
            self.topics.clear()
            self.topics.update(sorted(found.items()))

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that there are."""
        return [TopicPartition(name, index) for name, count in self.topics.items() for index in range(count)]
