"""The target of a consumer group: what each member should own, as a server-side assignor computes it (KIP-848).

A target belongs to a group epoch. It is computed at once when the epoch rises, unless the last one was expensive:
then the next one waits, so that targets take a twentieth of a core at most, and never longer than the assignment
interval (KIP-1263). An assignor that fails, or returns what cannot be, leaves the target in force standing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kohort.assign.server.spec import ServerAssignor, ServerGroup, ServerMember, ServerTopic
from kohort.group.commands import AssignTarget, PrepareClassic
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember, retry_after_ms, topic_ids_of
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Then, WakeMembers
from kohort.group.events import MemberTargetStored, TargetFailed, TargetStored
from kohort.group.group_timers import target_timer
from kohort.model.assignment import NOTHING, IdPartitions, id_partitions
from kohort.model.cause import Cause, CauseKind

COST_SHARE = 20
"""The time between targets is at least so many times what one takes."""


class IllegalTarget(Exception):
    """An assignor returned an illegal target."""


def decide_assign_target(group: ConsumerGroup, command: AssignTarget, now_ms: int, settings: GroupSettings) -> Effects:
    """Compute the target that the group's epoch calls for, now or as soon as it is time."""
    if group.epoch <= group.assignment_epoch or not group.members:
        return
    due_ms = due_at_ms(group, settings)
    if now_ms < due_ms:
        yield Arm(target_timer(group.group_id), due_ms)
        return
    yield from decide_target(group, settings, now_ms, command.cause)


def due_at_ms(group: ConsumerGroup, settings: GroupSettings) -> int:
    """Return when the next target may be computed."""
    if group.target_failure is not None and group.failed_epoch == group.epoch:
        return group.target_retry_ms
    interval_ms = settings.config_of(group.group_id).assignment_interval_ms
    if settings.assigns_early:
        interval_ms = min(interval_ms, group.target_cost_us * COST_SHARE // 1000)
    return group.assignment_timestamp_ms + interval_ms


def decide_target(group: ConsumerGroup, settings: GroupSettings, now_ms: int, cause: Cause) -> Effects:
    """Compute the target for the group's epoch. Walks all members, and no other decision does."""
    cause = replace(cause, at_ms=now_ms)  # its time is that of the target, which may have been delayed
    name = assignor_of(group, settings)
    try:
        targets = _legal_targets(settings.assignors.get(name), server_group(group, settings, cause))
    except Exception as error:  # an assignor may be a user's code
        message = f"assignor {name or 'none'} failed: {type(error).__name__}: {error}"
        yield Note(TargetFailed(group.group_id, name, message, cause))
        yield Arm(target_timer(group.group_id), now_ms + retry_after_ms(group.target_failures))
        return
    changed = [member_id for member_id, member in group.members.items() if targets[member_id] != member.target]
    for member_id in sorted(changed):
        yield Append(MemberTargetStored(group.group_id, member_id, targets[member_id], cause))
    yield Append(TargetStored(group.group_id, group.epoch, now_ms, cause))
    yield Disarm(target_timer(group.group_id))
    if changed:
        yield WakeMembers(group.group_id, tuple(sorted(changed)))
    if group.natives < len(group.members):
        yield Then(PrepareClassic(group.group_id, None, cause))


def assignor_of(group: ConsumerGroup, settings: GroupSettings, votes: Mapping[str, int] | None = None) -> str:
    """Return the assignor with most votes; without any, and among equals, the one that the broker names first.

    `votes` are those that are about to be. A vote for an assignor that the broker no longer has does not count.
    """
    counts = group.assignors if votes is None else votes
    names = tuple(settings.assignors)
    return max(names, key=lambda name: (counts.get(name, 0), -names.index(name)), default="")


def server_group(group: ConsumerGroup, settings: GroupSettings, cause: Cause | None = None) -> ServerGroup:
    """Return the group as an assignor sees it. Walks all members."""
    image = settings.image
    subscriptions: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
    members: dict[str, ServerMember] = {}
    for member_id in sorted(group.members):
        member = group.members[member_id]
        subscription = (member.subscribed_topic_names, member.subscribed_topic_regex)
        topics = subscriptions.get(subscription)
        if topics is None:
            topics = subscriptions[subscription] = topic_ids_of(group, member, image)
        is_reason = cause is not None and cause.kind is CauseKind.STANDBY_LAG and cause.member_id == member_id
        members[member_id] = ServerMember(
            topics,
            member.target,
            member.instance_id,
            member.rack_id,
            _metadata(member, settings),
            member.lags,
            cause.detail if cause is not None and is_reason else "",
            member.acceptable_recovery_lag,
        )
    found = {topic_id: image.topic_by_id(topic_id) for topic_id in sorted(frozenset().union(*subscriptions.values()))}
    topics_by_id = {
        topic_id: ServerTopic(topic.name, topic.partitions, topic.racks)
        for topic_id, topic in found.items()
        if topic is not None
    }
    return ServerGroup(members, topics_by_id, is_homogeneous=len(set(subscriptions.values())) <= 1)


_NO_METADATA: dict[str, tuple[int, bytes]] = {}


def _metadata(member: ConsumerMember, settings: GroupSettings) -> Mapping[str, tuple[int, bytes]]:
    """Return what a classic member's assignors send, as the metadata of server-side ones (KIP-848): version -1."""
    if member.classic is None:
        return _NO_METADATA
    found: dict[str, tuple[int, bytes]] = {}
    for name, metadata in member.classic.protocols:
        subscription = settings.subscription_of(metadata)
        if subscription is not None:
            found[name] = (-1, subscription.user_data or b"")
    return found


def _legal_targets(assignor: ServerAssignor | None, group: ServerGroup) -> dict[str, IdPartitions]:
    """Ask the assignor, and return the target of every member in canonical form. Raises whatever it does."""
    if assignor is None:
        raise IllegalTarget("this broker has no assignor")
    assigned = assignor.assign(group)
    if unknown := assigned.keys() - group.members.keys():
        raise IllegalTarget(f"{min(unknown)} is no member")
    targets: dict[str, IdPartitions] = {}
    given: dict[bytes, set[int]] = {}
    total = 0
    for member_id, member in group.members.items():
        target = assigned.get(member_id, NOTHING)
        if target != member.previous:
            target = id_partitions(target)
        for topic_id, partitions in target:
            if topic_id not in member.topics:
                raise IllegalTarget(f"{member_id} does not subscribe to topic {topic_id.hex()}")
            if not 0 <= partitions[0] <= partitions[-1] < group.topics[topic_id].partitions:
                raise IllegalTarget(f"{group.topics[topic_id].name} has no partition {partitions[-1]}")
            given.setdefault(topic_id, set()).update(partitions)
            total += len(partitions)
        targets[member_id] = target
    if total != sum(map(len, given.values())):
        raise IllegalTarget("a partition is given to two members")
    return targets
