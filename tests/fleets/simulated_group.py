"""Simulates one group in virtual time: the production coordinator, simulated members, and the log that they write.

A script, a function of the scene, starts, stops, kills and blocks members and lets time pass. `cut` marks a moment at
which the group is stable. Nothing depends on how long it stays so, so a fleet may stretch a scene over days at its
cuts. Names are tokens of a fixed length (see `group_template`), which copies replace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

from kohort.group.events import GroupStored, HardEvent, OffsetCommitted, OffsetDeleted
from kohort.log.group_replay import records_of
from kohort.log.offsets_topic import Replay, record_of
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.sim.kernel.broker_host import NodeHost
from kohort.sim.kernel.host import WALL_MS, Host
from kohort.sim.kernel.network import Network
from kohort.sim.kernel.rng import Rng
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.peers.client_kinds import KINDS, ClientKind, PeerConfig
from kohort.sim.peers.peer import Peer
from kohort.sim.peers.peer_connection import ClientPlace
from kohort.sim.peers.peer_producer import Feeder
from kohort.sim.peers.state_directory import StateDirectory
from kohort.sim.peers.streams_application import StreamsApplication
from kohort.sim.peers.streams_process import StreamsProcess
from kohort.what_if.virtual_broker import KAFKA_BEHAVIOR
from kohort.wire.record_batches import Record

SECOND_US = 1_000_000
PATIENCE_S = 900
"""How long the members of a scene may take to converge."""
REST_S = 5
"""For how long they have then been so: a heartbeat of each, by which it might report what changes the target."""
ADDRESS = ("n1", 9092)
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


class Piece(NamedTuple):
    """The records between two cuts. Times are on the scene's wall clock."""

    began_ms: int
    ended_ms: int
    is_occupied: bool
    """Whether the group has members at its end."""
    records: Sequence[Record]

    @property
    def duration_ms(self) -> int:
        """How long it takes."""
        return self.ended_ms - self.began_ms


Edit = Callable[[HardEvent], HardEvent]
Member = Peer | StreamsProcess
"""A member, or a process of Kafka Streams, each of whose threads is one."""


class SimulatedGroup:
    """One world with one broker and one group. `topics` are by name, with their partitions."""

    def __init__(self, seed: int, topics: Mapping[str, int]) -> None:
        self._rng = Rng(seed)
        self.topics = dict(topics)
        self.scheduler = Scheduler()
        self._observer = Observer()
        self._network = Network(self.scheduler, self._rng.stream("network"))
        host = Host("n1", self.scheduler)
        self._node = NodeHost(host, self._network, ADDRESS, self._rng.stream("n1"), self._observer, SETTINGS)
        self._node.start()
        assert self._node.node is not None, "a new disk has no objections"
        for name, partitions in self.topics.items():
            self._node.node.topics.create(name, partitions, {}, host.now_ms())
        self.topic_ids = {topic.name: topic.topic_id for topic in self._node.node.topics if not topic.is_internal}
        self.peers: dict[str, Member] = {}
        self._made: dict[str, tuple[ClientKind, PeerConfig]] = {}
        """By name, as what each member was started last."""
        self.application = StreamsApplication(GROUP, "counting", tuple(self.topics), 0, self.scheduler)
        self._directories: dict[Host, StateDirectory] = {}
        self._births = 0
        self._cuts = [(WALL_MS, False)]
        """The times of cuts, and whether the group had members then."""
        self._feeder = Feeder(self._place(Host("feed", self.scheduler), "feed"), self.topics)

    def _place(self, host: Host, stream: str) -> ClientPlace:
        return ClientPlace(host, self._network, [ADDRESS], self._rng.stream(stream), self._observer)

    # -- one member

    def start(self, number: int, kind: str, **config: Any) -> None:
        """Start the member `number` on a new host."""
        settings = PeerConfig(GROUP, **JAVAS | {"topics": tuple(self.topics)} | config)
        self._start(member_token(number), Host(host_token(self._births + 1), self.scheduler), KINDS[kind], settings)

    def again(self, peer: Member) -> None:
        """Start a member that has ended again, on its former host."""
        self._start(peer.name, peer.host, *self._made[peer.name])

    def _start(self, name: str, host: Host, kind: ClientKind, config: PeerConfig) -> None:
        self._births += 1
        self._made[name] = kind, config
        place = self._place(host, f"{name}/{self._births}")
        peer: Member
        if kind.protocol == "streams":
            peer = StreamsProcess(name, place, kind, config, self.application, self._directory(host, config))
        else:
            peer = Peer(name, place, kind, config)
        self.peers[name] = peer
        peer.start()

    def _directory(self, host: Host, config: PeerConfig) -> StateDirectory:
        """Return the state of a process, which stays on its host."""
        if host not in self._directories:
            process_id = str(UUID(int=self._births << 64, version=4))
            directory = StateDirectory(process_id, self.application, config.restores_per_s, self.scheduler)
            self._directories[host] = directory
        return self._directories[host]

    def consumer(self, number: int) -> Peer:
        """Return a member that is no process of Kafka Streams."""
        peer = self.peers[member_token(number)]
        assert isinstance(peer, Peer), "the member is a consumer"
        return peer

    def config_of(self, peer: Member) -> PeerConfig:
        """Return how a member was configured."""
        return self._made[peer.name][1]

    def close(self, peer: Member, *, leave: bool | None = None) -> None:
        """Stop a member as a deployment does, and wait until it has ended."""
        if isinstance(peer, Peer):
            peer.close(leave=leave)
        else:
            peer.close()
        for _ in range(600):
            if peer.is_over:
                return
            self.pass_s(0.5)
        raise AssertionError("a member stops when it is closed")

    def crash(self, number: int, away_s: float) -> None:
        """Kill a member, and start it again after a while on the same host."""
        peer = self.peers[member_token(number)]
        peer.kill()
        self.pass_s(away_s)
        self.again(peer)

    # -- all members

    @property
    def running(self) -> list[Member]:
        """The running members in order."""
        return [peer for _, peer in sorted(self.peers.items()) if not peer.is_over]

    def start_all(self, count: int, kind: str, *, static: bool = False, **config: Any) -> None:
        """Start members 0 to `count`, all at once, and wait."""
        for number in range(count):
            self.start(number, kind, instance_id=instance_token(number) if static else None, **config)
        self.settle()

    def roll(self, kind: str) -> None:
        """Deploy: replace every member by another process, one after the other."""
        for peer in self.running:
            config = self.config_of(peer)
            self.close(peer)
            self.pass_s(8)
            kept = {"instance_id": config.instance_id, "topics": config.topics, "threads": config.threads}
            self.start(number_of(peer), kind, **kept)
            self.converge()
        self.cut()

    def scale(self, kind: str, count: int) -> None:
        """Scale to `count` members, by starting new ones or stopping the last."""
        before = self.running
        for peer in reversed(before[count:]):
            self.close(peer)
        for number in range(len(before), count):
            self.start(number, kind)
        self.settle()

    def stop_all(self) -> None:
        """Stop all members."""
        for peer in self.running:
            self.close(peer)
        self.pass_s(5)
        self.cut()

    # -- time

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.scheduler.run_until(self.scheduler.now_us + int(seconds * SECOND_US))

    def converge(self) -> None:
        """Let time pass until the group has been at rest for a while."""
        rested_s = 0
        for _ in range(PATIENCE_S):
            self.pass_s(1)
            rested_s = rested_s + 1 if self._is_at_rest else 0
            if rested_s > REST_S:
                return
        raise AssertionError("the members of a scene converge")

    @property
    def _is_at_rest(self) -> bool:
        """Whether every running member owns its target, the coordinator awaits nothing, and no copy is warmed up."""
        assert self._node.node is not None, "the broker of a scene runs"
        if not all(peer.is_settled for peer in self.running):
            return False
        listed = self._node.node.coordinator.list_groups(frozenset(), frozenset())
        threads = [thread for peer in self.running if isinstance(peer, StreamsProcess) for thread in peer.threads]
        return all(group.state in {"Stable", "Empty"} for group in listed) and not any(
            thread.owned.warmup for thread in threads
        )

    def cut(self) -> None:
        """Mark a moment at which the group is stable."""
        self._cuts.append((self.now_ms, bool(self.running)))

    def settle(self) -> None:
        """Wait for a stable group, and mark it."""
        self.converge()
        self.cut()

    @property
    def now_ms(self) -> int:
        """The scene's wall clock."""
        return self._node.host.now_ms()

    # -- topics

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

    # -- the log

    def pieces(self, edit: Edit | None = None, *, as_kafka: bool = True) -> list[Piece]:
        """Return the log between the cuts, without committed offsets. `edit` may replace events.

        Kafka stores a generation when its leader has synced; ours also when it forms, which `as_kafka` leaves out.
        """
        if self._cuts[-1][0] != self.now_ms:
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
        ended_ms, is_occupied = self._cuts[-1]
        cuts = [*self._cuts[:-1], (ended_ms + 1, is_occupied)]
        return [
            Piece(began, ended, is_occupied, [each for each in kept if began <= each.timestamp_ms < ended])
            for (began, _), (ended, is_occupied) in pairwise(cuts)
        ]


def number_of(peer: Member) -> int:
    """Return the number of a member."""
    return int(peer.name[-2:])


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
