"""The target of a streams group: which tasks each member should own, as the sticky assignor places them.

A target belongs to a group epoch. It waits for the initial rebalance delay and for the assignment interval (KIP-1263),
and is computed sooner where that is cheap. While topics are missing every target is empty.
"""

from __future__ import annotations

from kohort.assign.server.streams_sticky import StickyMember, StickySubtopology, assign_tasks
from kohort.group.commands import AssignTarget
from kohort.group.consumer.group import metadata_hash
from kohort.group.consumer.target import COST_SHARE
from kohort.group.coordinator_settings import GroupSettings, TopicImage
from kohort.group.effects import Append, Arm, Disarm, Effects, WakeMembers
from kohort.group.group_timers import target_timer
from kohort.group.streams.events import Settings, StreamsMemberTargetStored, StreamsTargetStored
from kohort.group.streams.group import StreamsGroup
from kohort.group.streams.topology import (
    ConfiguredTopology,
    InvalidTopology,
    StatusCode,
    StreamsStatus,
    StreamsTopology,
    configured,
)
from kohort.model.streams_tasks import NO_TASKS, TasksByRole

NUM_STANDBY_REPLICAS = "num.standby.replicas"


def decide_assign_target(group: StreamsGroup, command: AssignTarget, now_ms: int, settings: GroupSettings) -> Effects:
    """Compute the target that the group's epoch calls for, now or as soon as it is time. Walks all members."""
    if group.epoch <= group.assignment_epoch or not group.members:
        return
    due_ms = _due_at_ms(group, settings)
    if now_ms < due_ms:
        yield Arm(target_timer(group.group_id), due_ms)
        return
    targets = targets_of(group, settings)
    for member_id, member in sorted(group.members.items()):
        target = targets.get(member_id, NO_TASKS)
        if target != member.target:
            yield Append(StreamsMemberTargetStored(group.group_id, member_id, target, command.cause))
    yield Append(StreamsTargetStored(group.group_id, group.epoch, now_ms, command.cause))
    yield Disarm(target_timer(group.group_id))
    # All of them take the new epoch, and one that was sent that the group is not ready waits for that alone.
    yield WakeMembers(group.group_id, tuple(sorted(group.members)))


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
    members = {member_id: StickyMember(each.process_id, each.target) for member_id, each in group.members.items()}
    return assign_tasks(members, subtopologies, settings.streams_config_of(group.group_id).standby_replicas)


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
    """Return the settings that a target depends on: another value takes the group's epoch on."""
    return ((NUM_STANDBY_REPLICAS, str(settings.streams_config_of(group_id).standby_replicas)),)
