"""A small world for tests of peers: one node, a network without faults, and an observer that keeps what it saw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kohort.member.effects import Callback
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.broker_host import NodeHost
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import Network
from kohort.sim.kernel.rng import Rng
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Errors, Observer, Observers, Offsets, SeenMember
from kohort.sim.peers.client_kinds import KINDS, ClientKind, PeerConfig
from kohort.sim.peers.peer import Peer
from kohort.sim.peers.peer_connection import ClientPlace
from kohort.sim.peers.peer_producer import Feeder

SECOND_US = 1_000_000
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "500",
    "offsets.topic.num.partitions": "1",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "5000",
    "group.consumer.heartbeat.interval.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


class Diary(Observer):
    """Keeps what it saw of members, as lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.owned: dict[str, Partitions] = {}
        self.read: dict[TopicPartition, list[tuple[int, int]]] = {}
        self.committed: dict[TopicPartition, int] = {}

    def member_started(self, member: SeenMember) -> None:
        self.lines.append(f"{member.name} started")

    def member_ended(self, member: SeenMember, how: str) -> None:
        self.lines.append(f"{member.name} ended: {how}")

    def member_moved(self, member: SeenMember, state: str, cause: str) -> None:
        self.lines.append(f"{member.name} {state} by {cause}")

    def callback_began(self, member: SeenMember, callback: Callback, partitions: Partitions, cause: str) -> None:
        del cause
        self.lines.append(f"{member.name} {callback} {text(partitions)} began")

    def callback_ended(self, member: SeenMember, callback: Callback, partitions: Partitions, error: str | None) -> None:
        del partitions
        self.lines.append(f"{member.name} {callback} ended{f': {error}' if error else ''}")

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        self.owned[member.name] = partitions
        self.lines.append(f"{member.name} owns {text(partitions)}")

    def delivered(self, member: SeenMember, partition: TopicPartition, first: int, next_offset: int) -> None:
        self.read.setdefault(partition, []).append((first, next_offset))
        self.lines.append(f"{member.name} read {partition} {first}..{next_offset}")

    def position(self, member: SeenMember, partition: TopicPartition, offset: int, why: str) -> None:
        self.lines.append(f"{member.name} at {partition} {offset} {why}")

    def commit_sent(self, member: SeenMember, number: int, offsets: Offsets) -> None:
        self.lines.append(f"{member.name} commit {number} {offsets_text(offsets)}")

    def commit_answered(self, member: SeenMember, number: int, offsets: Offsets, errors: Errors) -> None:
        code = next(iter(errors.values()), ErrorCode.NONE)
        self.lines.append(f"{member.name} commit {number} {code.name}")
        self.committed |= {each: offset for each, offset in offsets.items() if each not in errors}

    def asked(self, member: SeenMember, request: str, detail: str) -> None:
        self.lines.append(f"{member.name} > {request} {detail}".rstrip())

    def answered(self, member: SeenMember, request: str, error: ErrorCode, detail: str) -> None:
        self.lines.append(f"{member.name} < {request} {error.name} {detail}".rstrip())

    def produced(self, partition: TopicPartition, offset: int, count: int) -> None:
        self.lines.append(f"produced {partition} {offset} {count}")

    def of(self, name: str, *words: str) -> list[str]:
        """Return the lines of a member that begin with one of these words."""
        return [line for line in self.lines if line.startswith(tuple(f"{name} {word}" for word in words))]


class PeerWorld:
    """One node `n1` with a topic `t` of four partitions, and peers."""

    def __init__(self, *observers: Observer, seed: int = 1, partitions: int = 4, **settings: str) -> None:
        self.rng = Rng(seed)
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, self.rng.stream("network"))
        self.diary = Diary()
        self.observer = Observers([self.diary, *observers])
        self.observer.began(self.scheduler)
        host = Host("n1", self.scheduler)
        self.node = NodeHost(
            host, self.network, ("n1", 9092), self.rng.stream("n1"), self.observer, SETTINGS | settings
        )
        assert self.node.start()
        assert self.node.node is not None
        self.node.node.topics.create("t", partitions, {}, host.now_ms())
        self.births = 0
        self.topics = {"t": partitions}
        self.feeder = Feeder(self._place(Host("feed", self.scheduler), "feed"), self.topics)

    def _place(self, host: Host, stream: str) -> ClientPlace:
        return ClientPlace(host, self.network, [("n1", 9092)], self.rng.stream(stream), self.observer)

    def peer(self, name: str, kind: str | ClientKind, host: Host | None = None, **config: Any) -> Peer:
        """Start a peer."""
        self.births += 1
        config = {"topics": ("t",)} | config
        made = Peer(
            name,
            self._place(host or Host(name, self.scheduler), f"{name}/{self.births}"),
            KINDS[kind] if isinstance(kind, str) else kind,
            PeerConfig("g", **config),
        )
        made.start()
        return made

    def feed(self, count: int) -> None:
        """Have so many records written, and let that happen."""
        self.feeder.burst("t", count)
        until_us = self.scheduler.now_us + 60 * SECOND_US
        while not self.feeder.is_idle:
            assert self.scheduler.now_us < until_us, "records are acknowledged in time"
            self.scheduler.step()

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.scheduler.run_until(self.scheduler.now_us + int(seconds * SECOND_US))


def text(partitions: Partitions) -> str:
    """Return partitions as a diary writes them."""
    return " ".join(map(str, sorted(partitions))) or "nothing"


def offsets_text(offsets: Mapping[TopicPartition, int]) -> str:
    """Return offsets as a diary writes them."""
    return " ".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))
