"""A broker of virtual time that nobody else can see: a node of ours over a disk in memory, with a copy of one group.

The node is the production one, from commands on: its runtime decides, writes its log, keeps heartbeats and notes
events, and `explain` reads these as it reads those of a live broker. What a member asks takes the network's time both
ways.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from kohort.assign.server.catalog import KAFKAS_CLASSES, UnknownAssignor, server_assignors
from kohort.group.commands import Command, ConsumerHeartbeat, Heartbeat
from kohort.group.consumer.group import metadata_hash
from kohort.group.events import HardEvent
from kohort.group.explain.rebalance_report import EventFields
from kohort.group.results import Result
from kohort.log.memory_disk import MemoryDisk
from kohort.log.offsets_topic import encode_events
from kohort.node.configuration.broker_settings import INT_MAX
from kohort.node.configuration.config import Config, ConfigError
from kohort.node.groups.coordinator import OFFSETS_TOPIC
from kohort.node.groups.topic_image import NodeTopics
from kohort.node.node import Node
from kohort.node.topics.topic import EVENT_TOPIC
from kohort.parking.parked_heartbeat import ParkedHeartbeat
from kohort.sim.kernel.scheduler import Due, Scheduler
from kohort.what_if.group_facts import Cast, Facts, Times
from kohort.what_if.reading import Reading
from kohort.what_if.seeding import classic_events, consumer_events, numbered_ids
from kohort.wire.record_batches import decode_batch, iter_batches

BEGIN_MS = 1_700_000_000_000
"""The time of the clock when virtual time begins. Any time is as good."""

KAFKAS_WAYS = {
    "kohort.group.heartbeat.park": "false",
    "kohort.group.consumer.heartbeat.park.ms": "0",
    "kohort.group.consumer.heartbeat.park.stable.ms": "0",
    "kohort.group.requests.overtake": "false",
    "kohort.group.sync.hold.ms": "0",
    "kohort.group.initial.quiet.ms": "-1",
    "kohort.group.migration.min.embedded.version": "0",
}
"""What makes a broker of ours wait as Apache Kafka does."""

_CARRIED = ("group.", "kohort.group.")
_READ_BYTES = 4 << 20


class Stage:
    """One copied group, its coordinator, and the time in which they live."""

    def __init__(self, facts: Facts, cast: Cast, times: Times) -> None:
        self.facts = facts
        self.times = times
        self.group_id = facts.group.group_id
        self.scheduler = Scheduler()
        self.reading = Reading()
        self.unsettled: set[int] = set()
        """The numbers of the members that are on their way to somewhere."""
        self.turns = 0
        """How often a member came to rest, or ended."""
        self.ids = {name: topic_id for name, (topic_id, _) in facts.group.topics.items()}
        self._delay_us = round(times.network_ms * 1000)
        self._numbers = 0
        self._new_id = numbered_ids()
        self._tick: Due | None = None
        disk = MemoryDisk()
        config = broker_config(facts)
        first = self._node(config, disk)
        first.state.write(
            [
                {"type": "topic", "name": name, "id": topic_id.hex(), "partitions": count, "configs": {}, "epoch": 0}
                for name, (topic_id, count) in sorted(facts.group.topics.items())
                if not name.startswith("__")
            ],
            BEGIN_MS,
        )
        offsets = first.coordinator.ensure_topic(BEGIN_MS)
        events = self._events_of(cast, first)
        if events:
            offsets.partitions[0].append([encode_events(events, BEGIN_MS)], BEGIN_MS)
        first.stop(BEGIN_MS)
        self.node = self._node(config, disk)
        self._arm()

    def _node(self, config: Config, disk: MemoryDisk) -> Node:
        node = Node(config, disk, self._new_id, BEGIN_MS)
        node.start(BEGIN_MS)
        return node

    def _events_of(self, cast: Cast, node: Node) -> list[HardEvent]:
        if not cast.roles:
            return []
        if not cast.is_consumer:
            return classic_events(self.group_id, cast, self.times, BEGIN_MS)
        names = sorted({topic for role in cast.roles.values() for topic in role.topics})
        number = metadata_hash(names, NodeTopics(node.topics, node.config.broker_rack))
        return list(consumer_events(self.group_id, cast, self.times, self.ids, number, BEGIN_MS))

    # -- time

    @property
    def now_ms(self) -> int:
        """The time of every clock here."""
        return BEGIN_MS + self.scheduler.now_us // 1000

    def at_ms(self, moment_ms: int, action: Callable[..., object], *arguments: Any) -> Due:
        """Run an action when the clock shows a time."""
        return self.scheduler.at((moment_ms - BEGIN_MS) * 1000, action, *arguments)

    def after_ms(self, delay_ms: float, action: Callable[..., object], *arguments: Any) -> Due:
        """Run an action so much later."""
        return self.scheduler.after(round(delay_ms * 1000), action, *arguments)

    def next_number(self) -> int:
        """Return a number that was never given before."""
        self._numbers += 1
        return self._numbers

    # -- asking

    def ask(self, sender: Sender, command: Command, answered: Callable[[Any], object]) -> None:
        """Have a command reach the coordinator, and its answer the sender."""
        self.scheduler.after(self._delay_us, self._deliver, sender, command, answered)

    def hurry(self, sender: Sender, answered: Callable[[], object]) -> None:
        """Have the sender's kept heartbeat answered: any request on its connection does that."""
        self.scheduler.after(self._delay_us, self._release, sender)
        self.scheduler.after(2 * self._delay_us, answered)

    def _deliver(self, sender: Sender, command: Command, answered: Callable[[Any], object]) -> None:
        self._release(sender)
        node, now_ms = self.node, self.now_ms

        def ticket(result: Result) -> None:
            self.scheduler.after(self._delay_us, answered, result)

        if type(command) is Heartbeat:
            sender.parked = node.coordinator.heartbeat(command, ticket, now_ms)
        elif type(command) is ConsumerHeartbeat:
            sender.parked = node.coordinator.consumer_heartbeat(command, ticket, now_ms)
        else:
            node.coordinator.submit(command, ticket, now_ms)
        node.flush(now_ms)
        self._arm()

    def _release(self, sender: Sender) -> None:
        now_ms = self.now_ms
        self.node.tick(now_ms)
        parked, sender.parked = sender.parked, None
        if parked is not None:
            parked.release(now_ms)
            self._arm()

    def hang_up(self, sender: Sender) -> None:
        """The sender's connection is gone."""
        parked, sender.parked = sender.parked, None
        if parked is not None:
            parked.drop()

    def settle(self, number: int) -> None:
        """A member is at rest, or gone."""
        if number in self.unsettled:
            self.unsettled.remove(number)
            self.turns += 1

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        now_ms = self.now_ms
        self.node.tick(now_ms)
        found = self.node.topics.get(topic)
        assert found is not None, "a topic that grows exists"
        self.node.topics.grow(found, partitions, now_ms)
        self.node.flush(now_ms)
        self._arm()

    def _arm(self) -> None:
        """Run the node's timers when the next of them is due."""
        deadline_ms = self.node.next_deadline_ms()
        if deadline_ms is None:
            return
        when_us = (deadline_ms - BEGIN_MS) * 1000
        if self._tick is not None and self._tick.is_pending:
            if self._tick.when_us <= when_us:
                return
            self._tick.cancel()
        self._tick = self.scheduler.at(when_us, self._run_timers)

    def _run_timers(self) -> None:
        self.node.tick(self.now_ms)
        self.node.flush(self.now_ms)
        self._arm()

    # -- looking

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
        """A value that is another one after every change of the group, and of what its members have."""
        topic = self.node.topics.get(OFFSETS_TOPIC)
        return (0 if topic is None else topic.partitions[0].log.log_end_offset, self.turns)

    def member_ids(self) -> set[str]:
        """Return whoever is in the group by its coordinator's books. Walks all members."""
        coordinator = self.node.coordinator
        found = coordinator.describe(self.group_id) or coordinator.describe_consumer(self.group_id)
        return set() if found is None else {member.member_id for member in found.members}

    def told(self) -> Iterator[EventFields]:
        """Yield the events of the group so far, as a live broker would have written them."""
        # They are gathered for a moment.
        self.scheduler.run_until(self.scheduler.now_us + 100_000)
        topic = self.node.topics.get(EVENT_TOPIC)
        if topic is None:
            return
        source = topic.partitions[0].log
        offset = source.log_start_offset
        while offset < source.log_end_offset:
            for view in source.read(offset, _READ_BYTES, up_to=source.log_end_offset):
                for header, batch in iter_batches(view):
                    for record in decode_batch(batch):
                        if record.value is not None:
                            yield json.loads(record.value)
                    offset = header.last_offset + 1


class Sender:
    """Whoever has a connection: at most one heartbeat of it is kept."""

    parked: ParkedHeartbeat[Any, Any] | None = None


def broker_config(facts: Facts) -> Config:
    """Return the settings of the copy: the coordinator's own where they mean something to us."""
    settings = {name: text for name, text in facts.settings.items() if name.startswith(_CARRIED)}
    if not facts.is_ours:
        # Before 4.3 there is no interval, and targets are computed as they are asked for.
        settings = {"group.consumer.assignment.interval.ms": "0", **settings} | KAFKAS_WAYS
    settings["group.consumer.assignors"] = ",".join(_assignors(settings.get("group.consumer.assignors", "")))
    settings |= {"offsets.topic.num.partitions": "1", "log.retention.check.interval.ms": str(1 << 40)}
    settings["offsets.retention.check.interval.ms"] = str(1 << 40)
    # What a broker refuses to its groups may have been right for this one once.
    for kind in ("session.timeout", "heartbeat.interval", "assignment.interval"):
        settings[f"group.consumer.min.{kind}.ms"] = "0" if kind.startswith("assign") else "1"
        settings[f"group.consumer.max.{kind}.ms"] = str(INT_MAX)
    with suppress(ConfigError):
        return Config(settings)
    taken: dict[str, str] = {}
    for name, text in settings.items():
        try:
            Config({**taken, name: text})
        except ConfigError:
            continue
        taken[name] = text
    return Config(taken)


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
