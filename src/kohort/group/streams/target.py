"""The target of a streams group: which tasks each member should own.

The sticky assignor places the tasks, and what then waits for a copy to catch up is withheld (`streams_warmups`). A
target belongs to a group epoch. It waits for the initial rebalance delay and for the assignment interval (KIP-1263),
and is computed sooner where that is cheap. While topics are missing every target is empty.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from kohort.assign.server.streams_sticky import StickyMember, StickySubtopology, assign_tasks
from kohort.assign.server.streams_warmups import WarmupLimits, WarmupMember, refine
from kohort.group.commands import AssignTarget
from kohort.group.consumer.group import metadata_hash
from kohort.group.consumer.target import COST_SHARE
from kohort.group.coordinator_settings import (
    DEFAULT_RECOVERY_LAG,
    DEFAULT_WARMUPS,
    GroupSettings,
    StreamsConfig,
    TopicImage,
)
from kohort.group.effects import Append, Arm, Disarm, Effects, Then, WakeMembers
from kohort.group.group_timers import target_timer
from kohort.group.streams.events import Settings, StreamsMemberTargetStored, StreamsTargetStored
from kohort.group.streams.exit import next_epoch
from kohort.group.streams.group import StreamsGroup, StreamsMember
from kohort.group.streams.heartbeat import RetargetForLags
from kohort.group.streams.topology import (
    ConfiguredTopology,
    InvalidTopology,
    StatusCode,
    StreamsStatus,
    StreamsTopology,
    configured,
)
from kohort.model.cause import Cause, CauseKind
from kohort.model.streams_tasks import NO_TASKS, TasksByRole


def decide_assign_target(group: StreamsGroup, command: AssignTarget, now_ms: int, settings: GroupSettings) -> Effects:
    """Compute the target that the group's epoch calls for, now or as soon as it is time. Walks all members."""
    if group.epoch <= group.assignment_epoch or not group.members:
        return
    due_ms = _due_at_ms(group, settings)
    if now_ms < due_ms:
        yield Arm(target_timer(group.group_id), due_ms)
        return
    cause = replace(command.cause, at_ms=now_ms)  # its time is that of the target, which may have been delayed
    targets = targets_of(group, settings)
    for member_id, member in sorted(group.members.items()):
        target = targets.get(member_id, NO_TASKS)
        if target != member.target:
            yield Append(StreamsMemberTargetStored(group.group_id, member_id, target, cause))
    yield Append(StreamsTargetStored(group.group_id, group.epoch, now_ms, cause))
    yield Disarm(target_timer(group.group_id))
    # All of them take the new epoch, and one that was sent that the group is not ready waits for that alone.
    yield WakeMembers(group.group_id, tuple(sorted(group.members)))


def decide_retarget(group: StreamsGroup, command: RetargetForLags, now_ms: int, settings: GroupSettings) -> Effects:
    """Take the epoch on if what a member has just reported makes another target. Walks all members."""
    member = group.members[command.member_id]
    reason = member.retarget_reason
    if group.epoch > group.assignment_epoch or (member.reports_lags and reason is None):
        return
    targets = targets_of(group, settings)
    if any(targets.get(member_id, NO_TASKS) != each.target for member_id, each in group.members.items()):
        cause = Cause(CauseKind.STANDBY_LAG, now_ms, member.member_id, reason or "its client reports none")
        yield Append(next_epoch(group, cause))
        yield Then(AssignTarget(group.group_id, cause))


def _due_at_ms(group: StreamsGroup, settings: GroupSettings) -> int:
    interval_ms = settings.streams_config_of(group.group_id).assignment_interval_ms
    if settings.assigns_early:
        interval_ms = min(interval_ms, group.target_cost_us * COST_SHARE // 1000)
    return max(group.delayed_until_ms, group.assignment_timestamp_ms + interval_ms)


def targets_of(group: StreamsGroup, settings: GroupSettings) -> dict[str, TasksByRole]:
    """Return what each member should own; without a member it owns nothing."""
    topology = configured_of(group, settings.image)
    if topology is None or topology.status is not None:
        return {}
    subtopologies = {
        subtopology_id: StickySubtopology(each.tasks, each.is_stateful)
        for subtopology_id, each in topology.subtopologies.items()
    }
    config = settings.streams_config_of(group.group_id)
    members = {
        member_id: StickyMember(each.process_id, _previous(each), _tags(each, config.rack_aware_tags))
        for member_id, each in group.members.items()
    }
    placed = assign_tasks(members, subtopologies, config.standby_replicas)
    stateful = frozenset(subtopology_id for subtopology_id, each in subtopologies.items() if each.is_stateful)
    warming = {member_id: _warmup_member(each) for member_id, each in group.members.items()}
    return refine(placed, warming, stateful, WarmupLimits(config.acceptable_recovery_lag, config.warmup_replicas))


def _tags(member: StreamsMember, keys: tuple[str, ...]) -> tuple[str | None, ...]:
    known = dict(member.client_tags)
    return tuple(known.get(key) for key in keys)


def _previous(member: StreamsMember) -> TasksByRole:
    """Return the tasks for which the assignor should prefer a member: a warm-up is to become active where it is."""
    active, standby, warmup = member.target
    return TasksByRole(active, standby | (warmup - member.copies.falling_behind))


def _warmup_member(member: StreamsMember) -> WarmupMember:
    present = member.present
    lags = {task: lag for task, lag in member.copies.lags if task in present}
    falling_behind = member.copies.falling_behind
    return WarmupMember(
        member.process_id, member.assigned.active, member.target.warmup, lags, falling_behind, member.reports_lags
    )


def configured_of(group: StreamsGroup, image: TopicImage) -> ConfiguredTopology | None:
    """Return the group's topology with the topics there are, None before it has one."""
    if group.configured is not None or group.topology is None:
        return group.configured
    return derived(group.topology, image)


def derived(topology: StreamsTopology, image: TopicImage) -> ConfiguredTopology:
    """Return a topology with the topics there are; one that another broker stored may be invalid."""
    try:
        return configured(topology, image)
    except InvalidTopology as error:
        status = StreamsStatus(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(error))
        return ConfiguredTopology(topology, {}, (), status)


def validated_epoch_of(topology: ConfiguredTopology) -> int:
    """Return the epoch of a topology whose topics are all there, -1 for another one."""
    return topology.topology.epoch if topology.status is None else -1


def topics_hash(topology: StreamsTopology, image: TopicImage) -> int:
    """Return a number that distinguishes what the cluster has of the topology's topics (KIP-1101)."""
    return metadata_hash(topology.topics, image)


def assignment_settings_of(group_id: str, settings: GroupSettings) -> Settings:
    """Return the settings that a target depends on: another value takes the group's epoch on.

    Those that Kafka's groups do not store are left out at their defaults, so that a group which moves is as it was.
    """
    return _assignment_settings(settings.streams_config_of(group_id))


@lru_cache(maxsize=1000)
def _assignment_settings(config: StreamsConfig) -> Settings:
    """Do so for each value once: every heartbeat compares them with those of its group."""
    lag, warmups = config.acceptable_recovery_lag, config.warmup_replicas
    found = {
        "acceptable.recovery.lag": "" if lag == DEFAULT_RECOVERY_LAG else str(lag),
        "num.standby.replicas": str(config.standby_replicas),
        "num.warmup.replicas": "" if warmups == DEFAULT_WARMUPS else str(warmups),
        "rack.aware.assignment.tags": ",".join(config.rack_aware_tags),
    }
    return tuple((name, value) for name, value in found.items() if value)


def settings_difference(before: Settings, after: Settings) -> str:
    """Return in words which settings of a target are other ones `after`."""
    old, new = dict(before), dict(after)
    names = (name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name))
    return ", ".join(f"streams.{name}={new.get(name, 'default')}" for name in names)
