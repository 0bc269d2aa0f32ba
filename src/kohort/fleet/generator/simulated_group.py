"""Simulates one group in virtual time: the production coordinator, simulated members, and the log that they write.

A script, a function of the scene, starts, stops, kills and blocks members and lets time pass. `cut` marks a moment at
which the group is stable. Nothing depends on how long it stays so, so a fleet may stretch a scene over days at its
cuts. Names are tokens of a fixed length (see `group_template`), which copies replace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kohort.group.events import GroupStored, HardEvent, OffsetCommitted, OffsetDeleted
from kohort.log.group_replay import records_of
from kohort.log.log_config import LogConfig
from kohort.log.offsets_topic import Replay, record_of
from kohort.log.partition_log import PartitionLog
from kohort.sim.kernel.broker_host import NodeHost
from kohort.sim.kernel.host import WALL_MS, Host
from kohort.sim.kernel.network import Network
from kohort.sim.kernel.rng import Rng
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.peers.client_kinds import KINDS, Kind, PeerConfig
from kohort.sim.peers.peer import Peer
from kohort.sim.peers.peer_producer import Feeder
from kohort.what_if.virtual_broker import KAFKA_BEHAVIOR
from kohort.wire.record_batches import Record

SECOND_US = 1_000_000
GROUP = "group-000000000000000000"
"""The name of the group in every scene."""
SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.retention.check.interval.ms": str(1 << 40),
    "log.retention.check.interval.ms": str(1 << 40),
    "group.consumer.migration.policy": "bidirectional",
    **KAFKA_BEHAVIOR,
}
"""Settings of a broker with Apache Kafka's timing that never expires an offset, since a fleet has its own time."""
JAVAS = {
    "session_timeout_ms": 45_000,
    "heartbeat_interval_ms": 3_000,
    "max_poll_interval_ms": 300_000,
    "metadata_ms": 300_000,
    "fetch_wait_ms": 30_000,
    "work_us": 20_000,
}
"""Kafka's defaults, except that members fetch more rarely: nothing depends on it, and it is most of a scene's cost."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The records between two cuts. `began_ms` is on the scene's wall clock."""

    began_ms: int
    ended_ms: int
    records: tuple[Record, ...]


Edit = Callable[[HardEvent], HardEvent]


class SimulatedGroup:
    """One world with one broker and one group. `topics` are by name, with their partitions."""

    def __init__(self, seed: int, topics: Mapping[str, int], **settings: str) -> None:
        self.rng = Rng(seed)
        self.topics = dict(topics)
        self.scheduler = Scheduler()
        self._observer = Observer()
        self._network = Network(self.scheduler, self.rng.stream("network"))
        host = Host("n1", self.scheduler)
        random = self.rng.stream("n1")
        self._node = NodeHost(host, self._network, ("n1", 9092), random, self._observer, SETTINGS | settings)
        self._node.start()
        assert self._node.node is not None, "a new disk has no objections"
        for name, partitions in self.topics.items():
            self._node.node.topics.create(name, partitions, {}, host.now_ms())
        self.topic_ids = {topic.name: topic.topic_id for topic in self._node.node.topics if not topic.is_internal}
        self.peers: dict[str, Peer] = {}
        self.hosts: set[str] = set()
        self._births = 0
        self._cuts = [WALL_MS]
        self.occupied: list[bool] = []
        """By piece, whether the group had members at its end."""
        feed = Host("feed", self.scheduler)
        self._feeder = Feeder(feed, self._network, [("n1", 9092)], self.rng.stream("feed"), self._observer, self.topics)

    # -- steps of a script

    def start(self, number: int, kind: str | Kind, **config: Any) -> Peer:
        """Start the member `number` on a new host."""
        self._births += 1
        name = member_token(number)
        host = host_token(self._births)
        self.hosts.add(host)
        config = JAVAS | {"topics": tuple(self.topics)} | config
        peer = self.peers[name] = Peer(
            name,
            Host(host, self.scheduler),
            self._network,
            [("n1", 9092)],
            KINDS[kind] if isinstance(kind, str) else kind,
            self.rng.stream(f"{name}/{self._births}"),
            self._observer,
            PeerConfig(GROUP, **config),
        )
        peer.start()
        return peer

    def again(self, peer: Peer, **config: Any) -> Peer:
        """Start a member that has ended again, on its former host."""
        self._births += 1
        config = {**{name: getattr(peer.config, name) for name in peer.config.__slots__}, **config}
        made = self.peers[peer.name] = Peer(
            peer.name,
            peer.host,
            self._network,
            [("n1", 9092)],
            peer.made_as,
            self.rng.stream(f"{peer.name}/{self._births}"),
            self._observer,
            PeerConfig(**config),
        )
        made.start()
        return made

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.scheduler.run_until(self.scheduler.now_us + int(seconds * SECOND_US))

    def converge(self, patience_s: float = 900.0) -> None:
        """Let time pass until every running member owns its target."""
        until_us = self.scheduler.now_us + int(patience_s * SECOND_US)
        while self.scheduler.now_us < until_us:
            self.pass_s(1)
            if all(peer.is_settled for peer in self.peers.values() if not peer.is_over):
                self.pass_s(5)
                return
        raise AssertionError("the members of a scene converge")

    def close(self, peer: Peer) -> None:
        """Stop a member as a deployment does, and wait until it has left."""
        peer.close()
        for _ in range(600):
            if peer.is_over:
                return
            self.pass_s(0.5)
        raise AssertionError("a member stops when it is closed")

    def feed(self, count: int) -> None:
        """Write `count` records to each topic."""
        for name in self.topics:
            self._feeder.burst(name, count)

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        node = self._node.node
        assert node is not None, "the broker of a scene runs"
        found = node.topics.get(topic)
        assert found is not None, "a topic that grows exists"
        self.topics[topic] = partitions
        # A node's time is that of its last input, which may be before the last cut.
        node.tick(self.now_ms)
        node.topics.grow(found, partitions, self.now_ms)

    def cut(self) -> None:
        """Mark a moment at which the group is stable."""
        self._cuts.append(self.now_ms)
        self.occupied.append(any(not peer.is_over for peer in self.peers.values()))

    @property
    def now_ms(self) -> int:
        """The scene's wall clock."""
        return self._node.host.now_ms()

    # -- the log

    def pieces(self, edit: Edit | None = None, *, as_kafka: bool = True) -> list[Piece]:
        """Return the log between the cuts, without committed offsets. `edit` may replace events.

        Kafka stores a generation when its leader has synced; ours also when it forms, which `as_kafka` leaves out.
        """
        if self._cuts[-1] != self.now_ms:
            self.cut()
        disk = self._node.disk.clone()
        log = PartitionLog.open(disk, "__consumer_offsets-0", LogConfig(), self.now_ms)
        replay = Replay()
        kept: list[Record] = []
        for record in records_of(log):
            event = replay.event_of(record)
            if event is None or isinstance(event, OffsetCommitted | OffsetDeleted):
                continue
            if as_kafka and isinstance(event, GroupStored) and not event.is_synced:
                continue
            key, value = record.key, record.value
            if edit is not None:
                key, value = record_of(edit(event))
            kept.append(record._replace(key=key, value=value, headers=()))
        bounds = [*self._cuts[:-1], self._cuts[-1] + 1]
        return [
            Piece(began, ended, tuple(each for each in kept if began <= each.timestamp_ms < ended))
            for began, ended in pairwise(bounds)
        ]


def member_token(number: int) -> str:
    """Return the client id of a member in every scene."""
    return f"member-{number:02}"


def instance_token(number: int) -> str:
    """Return the instance id of a static member in every scene."""
    return f"static-{number:02}"


def host_token(number: int) -> str:
    """Return the name of a host in every scene."""
    return f"host-{number:07}"


def topic_token(number: int) -> str:
    """Return the name of a topic in every scene."""
    return f"topic-{number:06}"
