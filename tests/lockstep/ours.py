"""Our coordinator in virtual time: one shard, driven as `node/groups/runtime.py` drives it, without a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from zlib import crc32

from tests.lockstep.records import Records, Stored, event_of
from tests.unit.group.consumer_world import Topics

from kohort.assign.server.spec import ServerGroup
from kohort.group.commands import Command, Loaded, TimerFired, TopicChanged
from kohort.group.coordinator_settings import GroupSettings, ImageTopic
from kohort.group.decisions import decide
from kohort.group.effects import Append, Arm, Disarm, Note, Park, Parked, Reply, Then
from kohort.group.group_timers import Timer, TimerKind
from kohort.group.results import Result
from kohort.group.shard import Shard, apply, followers_of
from kohort.log.offsets_topic import record_of
from kohort.model.assignment import IdPartitions, id_partitions

RACKS = tuple(f"rack{broker}" for broker in range(4))


class Outcome(NamedTuple):
    """What one command led to."""

    answers: dict[int, Result]
    records: Records


class RackedTopics(Topics):
    """The topics of both sides. Partition p has replicas on the brokers p and p+1 of four, each in its own rack."""

    def put(self, name: str, topic_id: bytes, partitions: int) -> None:
        racks = tuple(frozenset((RACKS[index % 4], RACKS[(index + 1) % 4])) for index in range(partitions))
        self.topics[name] = ImageTopic(name, topic_id, partitions, racks)


class Scripted:
    """Deals partitions by who is in alone, an instance under any id: the twin of the assignor in Lockstep.java."""

    def __init__(self, name: str, turn: int) -> None:
        self.name = name
        self._turn = turn

    def assign(self, group: ServerGroup) -> Mapping[str, IdPartitions]:
        by_name = {member.instance_id or member_id: member_id for member_id, member in group.members.items()}
        ids = [by_name[name] for name in sorted(by_name)]
        salt = crc32(",".join(sorted(by_name)).encode()) + self._turn
        targets: dict[str, list[tuple[bytes, tuple[int]]]] = {member_id: [] for member_id in ids}
        for topic_id, topic in group.topics.items():
            takers = [member_id for member_id in ids if topic_id in group.members[member_id].topics]
            for partition in range(topic.partitions):
                targets[takers[(partition + salt) % len(takers)]].append((topic_id, (partition,)))
        return {member_id: id_partitions(target) for member_id, target in targets.items()}


_ORDER = {
    TimerKind.SESSION: "heartbeat",
    TimerKind.JOIN: "join",
    TimerKind.REBALANCE: "rebalance-timeout",
    TimerKind.SYNC: "sync",
    TimerKind.TARGET: "target",
    TimerKind.HOLD: "hold",
    TimerKind.QUIET: "quiet",
}
"""Timers of one moment fire in the order of Kafka's names for them."""


class Ours:
    """One shard of ours, with its timers, its parked requests and its log."""

    def __init__(self, settings: GroupSettings, now_ms: int) -> None:
        self.settings = settings
        self.shard = Shard(settings)
        self.now_ms = now_ms
        self.timers: dict[Timer, int] = {}
        self.parked: dict[Parked, int] = {}
        self._answers: dict[int, Result] = {}
        self._records: Records = []

    @property
    def next_ms(self) -> int | None:
        """When the next timer is due."""
        return min(self.timers.values(), default=None)

    def submit(self, command: Command, ticket: int | None = None) -> Outcome:
        """Carry a command out, and all that follows from it."""
        return self._outcome(lambda: self._run(command, ticket))

    def advance(self, to_ms: int) -> Outcome:
        """Let time pass; timers fire in the order of their deadlines."""

        def fire() -> None:
            while due := min(((at, _ORDER[timer.kind], timer) for timer, at in self.timers.items()), default=None):
                if due[0] > to_ms:
                    break
                self.now_ms = due[0]
                del self.timers[due[2]]
                self._run(TimerFired(due[2]), None)
            self.now_ms = to_ms

        return self._outcome(fire)

    def topics_change(self, names: Iterable[str], commands: Iterable[Command]) -> Outcome:
        """Notify the groups of changed topics; `commands` come first."""

        def notify() -> None:
            for command in commands:
                self._run(command, None)
            for name in names:
                for group_id in followers_of(self.shard, name):
                    self._run(TopicChanged(group_id, name), None)

        return self._outcome(notify)

    def load(self, log: Iterable[Stored]) -> Outcome:
        """Lose everything but the topics, and take up what a log holds."""

        def take_up() -> None:
            self.shard, self.timers, self.parked = Shard(self.settings), {}, {}
            for record in log:
                apply(self.shard, event_of(record))
            for group_id in sorted(self.shard.groups):
                self._run(Loaded(group_id), None)

        return self._outcome(take_up)

    def _outcome(self, action: Callable[[], None]) -> Outcome:
        self._answers, self._records = {}, []
        action()
        return Outcome(self._answers, self._records)

    def _run(self, command: Command, ticket: int | None) -> None:
        followers = [command]
        while followers:
            effects = list(decide(self.shard, followers.pop(0), self.now_ms))
            for effect in effects:
                if isinstance(effect, Append):
                    self._records.append(record_of(effect.event))
                if isinstance(effect, Append | Note):
                    apply(self.shard, effect.event)
            for effect in effects:
                match effect:
                    case Reply(result, None):
                        assert ticket is not None, "a timer has no request to answer"
                        self._answers[ticket] = result
                    case Reply(result, to) if to is not None:
                        self._answers[self.parked.pop(to)] = result
                    case Park(at):
                        assert ticket is not None, "only a request can wait"
                        assert at not in self.parked, "one request waits in one place"
                        self.parked[at] = ticket
                    case Arm(timer, deadline_ms):
                        self.timers[timer] = deadline_ms
                    case Disarm(timer):
                        self.timers.pop(timer, None)
            followers += [effect.command for effect in effects if isinstance(effect, Then)]
