"""A change to a streams group (KIP-1071), as a series of targets: which tasks move at once, which wait for copies.

No time passes: the coordinator's own decisions are asked, and each member does at once what it is assigned. Then all
copies catch up, which ends a step, until nothing waits any more. How long a copy takes is not known; how many records
it has to read is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple

from kohort.group.commands import LEAVE_EPOCH, Command, TimerFired
from kohort.group.coordinator_settings import GroupSettings, ImageTopic, NoTopics, StreamsConfig
from kohort.group.decisions import decide
from kohort.group.effects import Append, Note, Then
from kohort.group.events import Event
from kohort.group.group_timers import session_timer
from kohort.group.shard import Shard, apply
from kohort.group.streams.events import (
    StreamsGroupStored,
    StreamsMemberAssignmentStored,
    StreamsMemberState,
    StreamsMemberStored,
    StreamsMemberTargetStored,
    StreamsTargetStored,
    StreamsTopologyStored,
    TaskOffsetsOffered,
    TaskOffsetsReported,
    TopologyConfigured,
)
from kohort.group.streams.group import StreamsGroup
from kohort.group.streams.heartbeat import StreamsHeartbeat
from kohort.group.streams.target import assignment_settings_of, derived, topics_hash, validated_epoch_of
from kohort.group.streams.topology import StreamsTopology
from kohort.model.cause import Cause, CauseKind
from kohort.model.streams_tasks import NO_TASKS, NONE_ASSIGNED, AssignedTasks, Task, TasksByRole
from kohort.what_if.change import PlannedChange

EPOCH = 10
"""The epoch in which a copied group begins."""

_END = 1 << 40
"""Where each changelog ends: only differences count."""
_MOST_HEARTBEATS = 100
_REBALANCE_MS = 300_000


@dataclass(frozen=True, slots=True)
class StreamsMemberFacts:
    """One thread of an application: its process, its tasks, and how many records its copies are behind."""

    name: str
    process_id: str
    tasks: TasksByRole
    lags: Mapping[Task, int] = field(default_factory=dict)
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class StreamsFacts:
    """A streams group: its topology, the partitions of topics by name, what is set for it, and members by their ids.

    Its members `report_lags` from Kafka Streams 4.4 on. Before, no task waits for a copy.
    """

    group_id: str
    topology: StreamsTopology
    topics: Mapping[str, int]
    config: StreamsConfig
    members: Mapping[str, StreamsMemberFacts]
    reports_lags: bool


class TaskMove(NamedTuple):
    """A task that another member runs from then on; None is no member."""

    task: Task
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """What one series of targets leads to, at once: `warmups` and `standbys` are the copies that there are after it."""

    moves: tuple[TaskMove, ...]
    warmups: tuple[tuple[Task, str], ...]
    standbys: tuple[tuple[Task, str], ...]


def steps_of(facts: StreamsFacts, change: PlannedChange) -> list[Step]:
    """Return what follows when processes of one thread join, and members go."""
    copy = _GroupCopy(facts)
    before = copy.active()
    for number in range(1, change.add + 1):
        copy.join(f"new-{number}")
    for member_id in change.kill:
        copy.kill(member_id)
    for member_id in change.stop:
        copy.stop(member_id)
    copy.settle()
    steps = [copy.step(before)]
    while steps[-1].warmups:
        before = copy.active()
        copy.catch_up()
        copy.settle()
        step = copy.step(before)
        if not step.moves and step.warmups == steps[-1].warmups:
            return steps  # they wait for something else
        steps.append(step)
    return steps


class _Topics(NoTopics):
    def __init__(self, topics: Mapping[str, int]) -> None:
        self._topics = topics

    def topic(self, name: str) -> ImageTopic | None:
        count = self._topics.get(name)
        return None if count is None else ImageTopic(name, sha256(name.encode()).digest()[:16], count)


class _GroupCopy:
    """The group as its coordinator has it, in a shard of its own."""

    def __init__(self, facts: StreamsFacts) -> None:
        self._facts = facts
        # Targets come at once.
        config = facts.config._replace(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
        image = _Topics(facts.topics)
        self._settings = GroupSettings(image=image, streams_config=lambda _: config)
        self._shard = Shard(self._settings)
        self._now_ms = 0
        group_id, cause = facts.group_id, Cause(CauseKind.COORDINATOR_LOADED, 0)
        topology = derived(facts.topology, image)
        self._apply(StreamsTopologyStored(group_id, facts.topology, cause))
        chosen = assignment_settings_of(group_id, self._settings)
        hash_then, validated = topics_hash(facts.topology, image), validated_epoch_of(topology)
        self._apply(StreamsGroupStored(group_id, EPOCH, hash_then, validated, chosen, cause))
        self._apply(TopologyConfigured(group_id, topology, cause))
        for member_id, member in sorted(facts.members.items()):
            self._restore(member_id, member, cause)
        self._apply(StreamsTargetStored(group_id, EPOCH, 0, cause))
        self._names = {member_id: member.name for member_id, member in facts.members.items()}

    def _restore(self, member_id: str, member: StreamsMemberFacts, cause: Cause) -> None:
        group_id, epoch = self._facts.group_id, self._facts.topology.epoch
        process_id = member.process_id
        sent = member.instance_id, None, "", "", _REBALANCE_MS, epoch, process_id, None, (), cause
        self._apply(StreamsMemberStored(group_id, member_id, *sent))
        self._apply(StreamsMemberTargetStored(group_id, member_id, member.tasks, cause))
        active, standby, warmup = member.tasks
        assigned = AssignedTasks(dict.fromkeys(active, EPOCH), standby, warmup)
        stable = StreamsMemberState.STABLE
        self._apply(
            StreamsMemberAssignmentStored(group_id, member_id, EPOCH, EPOCH, stable, assigned, NONE_ASSIGNED, cause)
        )
        self._apply(TaskOffsetsOffered(group_id, member_id, self._facts.reports_lags, cause))
        offsets = tuple((task, _END - lag) for task, lag in sorted(member.lags.items()))
        ends = tuple((task, _END) for task in sorted(member.lags))
        lag = self._facts.config.acceptable_recovery_lag
        self._apply(TaskOffsetsReported(group_id, member_id, offsets, ends, lag, 1, cause))

    def _apply(self, event: Event) -> None:
        apply(self._shard, event)

    def _run(self, command: Command) -> None:
        following = []
        for effect in decide(self._shard, command, self._now_ms):
            if isinstance(effect, Append | Note):
                self._apply(effect.event)
            elif isinstance(effect, Then):
                following.append(effect.command)
        for each in following:
            self._run(each)

    @property
    def _group(self) -> StreamsGroup:
        group = self._shard.groups[self._facts.group_id]
        assert isinstance(group, StreamsGroup), "it was copied as one"
        return group

    # -- the change

    def join(self, name: str) -> None:
        """Let a process with one thread join, on whose disk is nothing."""
        heartbeat = StreamsHeartbeat(self._facts.group_id, name, 0, owned=NO_TASKS, topology=self._facts.topology)
        self._names[name] = name
        self._run(
            replace(
                heartbeat,
                rebalance_timeout_ms=_REBALANCE_MS,
                process_id=name,
                offsets=(),
                end_offsets=(),
                reports_lags=self._facts.reports_lags,
            )
        )

    def kill(self, member_id: str) -> None:
        """Let the session of a member be over."""
        self._run(TimerFired(session_timer(self._facts.group_id, member_id)))

    def stop(self, member_id: str) -> None:
        """Let a member leave."""
        self._run(StreamsHeartbeat(self._facts.group_id, member_id, LEAVE_EPOCH))

    def settle(self) -> None:
        """Have all members do what they are assigned."""
        for _ in range(_MOST_HEARTBEATS):
            self._now_ms += 1
            for member_id in sorted(self._group.members):
                self._heartbeat(member_id)
            if not self._group.unsettled:
                return

    def catch_up(self) -> None:
        """Have all members report that their copies are where the changelogs end."""
        for member_id, member in sorted(self._group.members.items()):
            ends = tuple((task, _END) for task in sorted(member.assigned.roles()))
            self._heartbeat(member_id, ends)

    def _heartbeat(self, member_id: str, offsets: tuple[tuple[Task, int], ...] | None = None) -> None:
        member = self._group.members[member_id]
        self._run(
            StreamsHeartbeat(
                self._facts.group_id,
                member_id,
                member.epoch,
                owned=member.assigned.tasks,
                offsets=offsets,
                end_offsets=offsets,
                reports_lags=self._facts.reports_lags,
            )
        )

    # -- what there is

    def active(self) -> dict[Task, str]:
        """Return the name of the member that runs each task."""
        members = self._group.members.items()
        return {task: self._names[member_id] for member_id, member in members for task in member.assigned.active}

    def step(self, before: Mapping[Task, str]) -> Step:
        """Return what differs from who ran each task `before`, and the copies that there are."""
        after = self.active()
        tasks = sorted(before.keys() | after.keys())
        moves = (TaskMove(task, before.get(task), after.get(task)) for task in tasks)
        copies = sorted((self._names[each], member.assigned) for each, member in self._group.members.items())
        return Step(
            tuple(move for move in moves if move.before != move.after),
            tuple((task, name) for name, assigned in copies for task in sorted(assigned.warmup)),
            tuple((task, name) for name, assigned in copies for task in sorted(assigned.standby)),
        )
