"""A broker in virtual time with a copy of one group: a node of ours over a disk in memory.

The node is the production one, on the simulator's network: it decides, writes its log, parks heartbeats and writes
events, and `explain` reads these as it reads those of a live broker. A request takes the network's time both ways. The
copy begins with the records that a coordinator would have replayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import count
from typing import Any

from kohort.assign.server.catalog import KAFKAS_CLASSES, UnknownAssignor, server_assignors
from kohort.assign.server.spec import StandbyLags
from kohort.group.consumer.group import metadata_hash
from kohort.group.events import (
    Assigned,
    ClassicMemberMetadata,
    ConsumerGroupStored,
    ConsumerMemberStored,
    GroupStored,
    HardEvent,
    MemberAssignmentStored,
    MemberState,
    MemberTargetStored,
    StoredMember,
    TargetStored,
)
from kohort.group.explain.rebalance_report import EventFields
from kohort.group.migration.migration_plan import MemberKind
from kohort.log.group_replay import records_of
from kohort.log.memory_disk import MemoryDisk
from kohort.log.offsets_topic import encode_events
from kohort.model.assignment import Assignment, IdPartitions, Partitions, by_topic, id_partitions
from kohort.model.cause import Cause, CauseKind
from kohort.model.ids import EVENT_TOPIC, TopicPartition
from kohort.model.setting import INT_MAX, SettingsError
from kohort.model.subscription import Subscription
from kohort.node.configuration.config import Config
from kohort.node.groups.coordinator import OFFSETS_TOPIC
from kohort.node.groups.topic_image import NodeTopics
from kohort.node.node import Node
from kohort.sim.kernel.broker_host import NodeHost
from kohort.sim.kernel.host import WALL_MS, Host
from kohort.sim.kernel.network import Network
from kohort.sim.kernel.rng import Rng
from kohort.sim.kernel.scheduler import Due, Scheduler
from kohort.sim.kernel.world_observer import Observer
from kohort.what_if.forecast import PartitionReaders
from kohort.what_if.group_facts import GroupFacts, MemberProfile, Roster, Times
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription

GENERATION = 10
"""The generation, or the epoch, in which a copied group begins."""

HOST = "/what-if"
ADDRESS = ("broker", 9092)


def classic_events(group_id: str, roster: Roster, times: Times, now_ms: int) -> list[HardEvent]:
    """Return the record of a classic group that is Stable."""
    members = tuple(
        StoredMember(
            member_id,
            profile.instance_id,
            profile.name,
            HOST,
            times.rebalance_timeout_ms,
            times.session_timeout_ms,
            _metadata(profile),
            encode_assignment(Assignment(roster.owned[member_id])),
        )
        for member_id, profile in sorted(roster.profiles.items())
    )
    leader = members[0].member_id if members else None
    cause = Cause(CauseKind.COORDINATOR_LOADED, now_ms)
    return [GroupStored(group_id, "consumer", GENERATION, roster.assignor, leader, now_ms, members, cause)]


def consumer_events(
    group_id: str, roster: Roster, times: Times, ids: Mapping[str, bytes], metadata_hash: int, now_ms: int
) -> Iterator[HardEvent]:
    """Yield the records of a consumer group whose members have all of their targets; `ids` are those of its topics."""
    cause = Cause(CauseKind.COORDINATOR_LOADED, now_ms)
    for member_id, profile in sorted(roster.profiles.items()):
        classic = None
        if profile.kind is not MemberKind.CONSUMER:
            offers = tuple((name, _metadata(profile)) for name in profile.offers)
            classic = ClassicMemberMetadata(times.session_timeout_ms, offers)
        yield ConsumerMemberStored(
            group_id,
            member_id,
            profile.instance_id,
            profile.rack,
            profile.name,
            HOST,
            tuple(sorted(profile.topics)),
            "",
            times.rebalance_timeout_ms,
            profile.server_assignor,
            classic,
            cause,
            lags_with_ids(profile.lags, ids),
            profile.acceptable_recovery_lag,
        )
    yield ConsumerGroupStored(group_id, GENERATION, metadata_hash, cause)
    for member_id in sorted(roster.profiles):
        yield MemberTargetStored(group_id, member_id, with_ids(roster.owned[member_id], ids), cause)
    yield TargetStored(group_id, GENERATION, now_ms, cause)
    for member_id in sorted(roster.profiles):
        assigned = tuple(
            Assigned(topic_id, numbers, (GENERATION,) * len(numbers))
            for topic_id, numbers in with_ids(roster.owned[member_id], ids)
        )
        yield MemberAssignmentStored(
            group_id, member_id, GENERATION, GENERATION - 1, MemberState.STABLE, assigned, (), cause
        )


def with_ids(partitions: Partitions, ids: Mapping[str, bytes]) -> IdPartitions:
    """Return partitions by topic id."""
    return id_partitions((ids[topic], numbers) for topic, numbers in by_topic(partitions).items() if topic in ids)


def lags_with_ids(lags: Mapping[TopicPartition, int], ids: Mapping[str, bytes]) -> StandbyLags:
    """Return the lags of standby copies by topic id."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    for (topic, number), lag in sorted(lags.items()):
        if topic in ids:
            found.setdefault(ids[topic], []).append((number, lag))
    return tuple((topic_id, tuple(found[topic_id])) for topic_id in sorted(found))


def _metadata(profile: MemberProfile) -> bytes:
    return encode_subscription(Subscription(tuple(sorted(profile.topics)), rack=profile.rack))


def numbered_ids() -> Callable[[int], bytes]:
    """Return a source of ids that are never the same twice, and the same in every run."""
    numbers = count(1)
    return lambda size: sha256(f"what-if {next(numbers)}".encode()).digest()[:size]


KAFKA_BEHAVIOR = {
    "kohort.group.heartbeat.park": "false",
    "kohort.group.consumer.heartbeat.park.ms": "0",
    "kohort.group.consumer.heartbeat.park.stable.ms": "0",
    "kohort.group.requests.overtake": "false",
    "kohort.group.sync.hold.ms": "0",
    "kohort.group.initial.quiet.ms": "-1",
    "kohort.group.migration.min.embedded.version": "0",
}
"""Settings that make a broker of ours wait as Apache Kafka does."""

_CARRIED = ("group.", "kohort.group.")


class VirtualBroker:
    """One copied group, its coordinator, and their virtual time."""

    def __init__(self, facts: GroupFacts, roster: Roster, times: Times) -> None:
        self.facts = facts
        self.times = times
        self.group_id = facts.group.group_id
        self.scheduler = Scheduler()
        self.rng = Rng(0)
        self.network = Network(self.scheduler, self.rng.stream("network"))
        self.network.latency_us, self.network.jitter_us = round(times.network_ms * 1000), 0
        self.readers = PartitionReaders()
        self.unsettled: set[int] = set()
        """The numbers of the members that are not stable."""
        self.settled_count = 0
        """How often a member became stable, or ended."""
        self.ids = {name: topic_id for name, (topic_id, _) in facts.group.topics.items()}
        self.numbers = count(1)
        """The numbers of members, each given once."""
        settings, disk = broker_settings(facts), MemoryDisk()
        self._write(settings, disk, roster)
        host = Host(ADDRESS[0], self.scheduler)
        self._host = NodeHost(host, self.network, ADDRESS, self.rng.stream("broker"), Observer(), settings, disk)
        self._host.flush_us = 0
        self._host.start()

    def _write(self, settings: Mapping[str, str], disk: MemoryDisk, roster: Roster) -> None:
        """Write what a coordinator would have replayed."""
        node = Node(Config(settings), disk, numbered_ids(), WALL_MS)
        node.start(WALL_MS)
        node.state.write(
            [
                {"type": "topic", "name": name, "id": topic_id.hex(), "partitions": count, "configs": {}, "epoch": 0}
                for name, (topic_id, count) in sorted(self.facts.group.topics.items())
                if not name.startswith("__")
            ],
            WALL_MS,
        )
        offsets = node.coordinator.ensure_topic()
        events = self._events_of(roster, node)
        if events:
            offsets.partitions[0].append([encode_events(events, WALL_MS)], WALL_MS)
        node.stop(WALL_MS)

    def _events_of(self, roster: Roster, node: Node) -> list[HardEvent]:
        if not roster.profiles:
            return []
        if not roster.is_consumer:
            return classic_events(self.group_id, roster, self.times, WALL_MS)
        names = sorted({topic for profile in roster.profiles.values() for topic in profile.topics})
        number = metadata_hash(names, NodeTopics(node.topics, node.config.broker_rack))
        return list(consumer_events(self.group_id, roster, self.times, self.ids, number, WALL_MS))

    @property
    def node(self) -> Node:
        """The coordinator's node."""
        assert self._host.node is not None, "the broker of a forecast runs"
        return self._host.node

    @property
    def interval_ms(self) -> int:
        """The heartbeat interval of consumer groups."""
        return self.node.config.group_consumer_heartbeat_interval_ms

    @property
    def now_ms(self) -> int:
        """The time of every clock, in milliseconds since the epoch."""
        return self._host.host.now_ms()

    def after_ms(self, delay_ms: float, action: Callable[..., object], *arguments: Any) -> Due:
        """Run an action after a delay."""
        return self.scheduler.after(round(delay_ms * 1000), action, *arguments)

    def mark_settled(self, number: int) -> None:
        """A member is stable, or has ended."""
        if number in self.unsettled:
            self.unsettled.remove(number)
            self.settled_count += 1

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        now_ms = self.now_ms
        self.node.tick(now_ms)
        found = self.node.topics.get(topic)
        assert found is not None, "a topic that grows exists"
        self.node.topics.grow(found, partitions, now_ms)
        self.node.flush(now_ms)
        self._host.watch()

    # -- state

    @property
    def partitions(self) -> Mapping[str, int]:
        """How many partitions each topic has now."""
        return {topic.name: len(topic.partitions) for topic in self.node.topics if not topic.is_internal}

    @property
    def state(self) -> str:
        """The state of the group, "Dead" where there is none."""
        listed = self.node.coordinator.list_groups(frozenset(), frozenset())
        return next((str(group.state) for group in listed if group.group_id == self.group_id), "Dead")

    @property
    def version(self) -> tuple[int, int]:
        """A value that differs after every change of the group, and of what its members own."""
        topic = self.node.topics.get(OFFSETS_TOPIC)
        return (0 if topic is None else topic.partitions[0].log.log_end_offset, self.settled_count)

    def member_ids(self) -> set[str]:
        """Return the ids of the members that the coordinator has. Walks all members."""
        coordinator = self.node.coordinator
        found = coordinator.describe(self.group_id) or coordinator.describe_consumer(self.group_id)
        return set() if found is None else {member.member_id for member in found.members}

    def events(self) -> Iterator[EventFields]:
        """Yield the events of the group so far, as a live broker writes them."""
        # The broker gathers them for a moment.
        self.scheduler.run_until(self.scheduler.now_us + 100_000)
        topic = self.node.topics.get(EVENT_TOPIC)
        if topic is None:
            return
        for record in records_of(topic.partitions[0].log):
            yield json.loads(record.value or b"{}")


def broker_settings(facts: GroupFacts) -> dict[str, str]:
    """Return the settings of the copy: the coordinator's own where they mean something to us."""
    settings = {name: text for name, text in facts.settings.items() if name.startswith(_CARRIED)}
    if not facts.is_ours:
        # Before 4.3 there is no interval, and targets are computed as they are asked for.
        settings = {"group.consumer.assignment.interval.ms": "0", **settings} | KAFKA_BEHAVIOR
    settings["group.consumer.assignors"] = ",".join(_assignors(settings.get("group.consumer.assignors", "")))
    settings |= {"offsets.topic.num.partitions": "1", "log.retention.check.interval.ms": str(1 << 40)}
    settings["offsets.retention.check.interval.ms"] = str(1 << 40)
    # The group may have a value that the broker's bounds would refuse by now.
    for kind in ("session.timeout", "heartbeat.interval", "assignment.interval"):
        settings[f"group.consumer.min.{kind}.ms"] = "0" if kind.startswith("assign") else "1"
        settings[f"group.consumer.max.{kind}.ms"] = str(INT_MAX)
    with suppress(SettingsError):
        Config(settings)
        return settings
    taken: dict[str, str] = {}
    for name, text in settings.items():
        try:
            Config({**taken, name: text})
        except SettingsError:
            continue
        taken[name] = text
    return taken


def _assignors(listed: str) -> list[str]:
    names: list[str] = []
    for name in [*listed.split(","), "uniform", "range"]:
        name = KAFKAS_CLASSES.get(name.strip(), name.strip())
        try:
            server_assignors([name])
        except UnknownAssignor:
            continue
        if name not in names:
            names.append(name)
    return names
