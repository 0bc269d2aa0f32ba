"""Streams groups (KIP-1071): the coordinator's half of StreamsGroupHeartbeat.

THE MACHINE. As a consumer group (KIP-848) it has no rounds: a group has an epoch, a target belongs to an epoch, and
each member walks to its target by itself, one step per heartbeat. What members own are tasks, not partitions; what they
send is the topology of their program, and the coordinator derives tasks and internal topics from it.

    state         when                                                   leaves it when
    Empty         no members                                             a member joins
    NotReady      topics of the topology are missing, or do not fit      they are there: the group's epoch rises
    Assigning     the target is behind the group                         the target is computed
    Reconciling   some member is behind the target                       the last one has what it should
    Stable        neither                                                something changes
    Dead          this coordinator has dropped the group                 never

Steps of members are in `reconcile`, topics in `topology`, targets in `target`.

THE RULES are those of consumer groups (`consumer/machine`): a heartbeat that changes much is decided in parts, each
with records of its own; a heartbeat or its answer may be lost or come twice; who shows an epoch that it has not been
given is fenced.
 1. Everything a member sends of itself takes the epoch on if it is new; of a static member only what decides where
    tasks are placed.
 2. A group that was empty waits for the initial rebalance delay before its first target, so that the members of an
    application which starts are assigned together.
 3. A member that cannot run tasks stays in the group, and each answer has the reason as a status. With the status that
    internal topics are missing, the node makes them before the answer leaves, with the rights of its receiver.
 4. A member that asks for the end of the application has all others receive that, until the group is empty.
 5. A member that must act is woken, so that its parked heartbeat is answered: all of them by a new target, or when the
    application is to end; those that wait for tasks which another one has given back. Endpoints wake no member: each
    step of each member changes them.
 6. A task with state that moves waits for a copy that has caught up (`assign/server/streams_warmups`). Members report
    how far their copies are, every so often and as soon as a warm-up has caught up. A report calls for a new target if
    a copy has come within the limit, or if one falls further behind for some time (KIP-848), and if that target is
    another one. What was reported is lost at a failover; then tasks stay where they are until it is sent again.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.group.classic.group import instance_error
from kohort.group.commands import AssignTarget, Loaded, TargetMeasured, TimerFired, TopicChanged, Unload
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Reply, Then, WakeMembers
from kohort.group.events import GroupLoaded, GroupUnloaded, TargetTimed
from kohort.group.group_timers import TimerKind, revocation_timer, target_timer
from kohort.group.streams.answer import asks_for_description, decide_reconcile, settled_answer
from kohort.group.streams.events import StreamsMemberState, TopologyConfigured
from kohort.group.streams.exit import (
    decide_leave,
    delete_member,
    disarm,
    expire_revocation,
    expire_session,
    next_epoch,
)
from kohort.group.streams.group import StreamsGroup, StreamsMember
from kohort.group.streams.heartbeat import StreamsHeartbeat, StreamsReconcile, refused, request_refusal
from kohort.group.streams.join import decide_join, subscribe
from kohort.group.streams.target import (
    assignment_settings_of,
    derived,
    settings_difference,
    topics_hash,
    validated_epoch_of,
)
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.streams_tasks import is_within


def decide_heartbeat(group: StreamsGroup, command: StreamsHeartbeat, now_ms: int, settings: GroupSettings) -> Effects:
    """Renew the sender's session, and answer with what has changed for it. Most change nothing, and cost little."""
    member = group.members.get(command.member_id)
    if member is None or not _is_settled(group, member, command, now_ms, settings):
        return _decide_heartbeat(group, member, command, now_ms, settings)
    answer = Reply(settled_answer(group, member, command, now_ms, settings))
    if command.is_counted:
        return (answer,)
    return Arm(member.session, now_ms + settings.streams_config_of(group.group_id).session_timeout_ms), answer


def _decide_heartbeat(
    group: StreamsGroup, member: StreamsMember | None, command: StreamsHeartbeat, now_ms: int, settings: GroupSettings
) -> Effects:
    refusal = request_refusal(command)
    if refusal is not None:
        yield Reply(refusal)
    elif group.is_dead:
        yield Reply(refused(ErrorCode.NOT_COORDINATOR, "the coordinator of the group is another one now"))
    elif command.is_leaving:
        yield from decide_leave(group, command, now_ms)
    elif command.member_epoch == 0:
        yield from decide_join(group, command, now_ms, settings)
    elif error := instance_error(group.static_members, command.member_id, command.instance_id):
        text = f"instance {command.instance_id} is not {command.member_id}'s: it must join again, or close"
        yield Reply(refused(error, text))
    elif member is None:
        text = f"Member {command.member_id} is not a member of group {command.group_id}."
        yield Reply(refused(ErrorCode.UNKNOWN_MEMBER_ID, text))
    elif not _may_show(member, command):
        text = f"member {member.member_id} shows epoch {command.member_epoch} and has {member.epoch}"
        yield Reply(refused(ErrorCode.FENCED_MEMBER_EPOCH, f"{text}: it must revoke everything and join again"))
    elif _is_steady(group, member, command, settings):
        if not command.is_counted:
            timeout_ms = settings.streams_config_of(group.group_id).session_timeout_ms
            yield Arm(member.session, now_ms + timeout_ms)
        yield from decide_reconcile(
            group, StreamsReconcile(group.group_id, member.member_id, command), now_ms, settings
        )
    else:
        now_set = assignment_settings_of(group.group_id, settings)
        cause = Cause(CauseKind.MEMBER_CHANGED, now_ms, member.member_id)
        if now_set != group.assignment_settings:
            change = settings_difference(group.assignment_settings, now_set)
            cause = Cause(CauseKind.GROUP_SETTINGS_CHANGED, now_ms, detail=change)
        yield from subscribe(group, member, command, cause, settings)


def _may_show(member: StreamsMember, command: StreamsHeartbeat) -> bool:
    """Whether a member can have the epoch that it shows: its own, or the one before if the answer was lost."""
    if command.member_epoch == member.epoch:
        return True
    is_previous = 0 < command.member_epoch < member.epoch and command.member_epoch == member.previous_epoch
    return is_previous and (command.owned is None or is_within(command.owned, member.assigned))


def _is_settled(
    group: StreamsGroup, member: StreamsMember, command: StreamsHeartbeat, now_ms: int, settings: GroupSettings
) -> bool:
    """Whether a member that has its target sends nothing new."""
    return (
        command.member_epoch == member.epoch > 0
        and member.member_id not in group.unsettled
        and not group.is_dead
        and command.topology is None
        and command.instance_id in (None, member.instance_id)
        and not asks_for_description(group, member, command, now_ms, settings)
        and _is_steady(group, member, command, settings)
    )


def _is_steady(group: StreamsGroup, member: StreamsMember, command: StreamsHeartbeat, settings: GroupSettings) -> bool:
    """Whether a heartbeat has nothing new of its sender but what it owns."""
    return (
        group.configured is not None
        and command.rebalance_timeout_ms == -1
        and command.process_id is None
        and command.endpoint is None
        and command.client_tags is None
        and command.offsets is None
        and command.end_offsets is None
        and command.reports_lags is member.reports_lags
        and not command.shuts_down
        and (command.client_id, command.client_host) == (member.client_id, member.client_host)
        and command.rack_id in (None, member.rack_id)
        and group.assignment_settings == assignment_settings_of(group.group_id, settings)
    )


def decide_timer(group: StreamsGroup, command: TimerFired, now_ms: int, settings: GroupSettings) -> Effects:
    """Do what a timer of the group was armed for, unless the group has moved on."""
    timer = command.timer
    match timer.kind:
        case TimerKind.SESSION:
            yield from expire_session(group, timer.member_id, now_ms, settings)
        case TimerKind.REBALANCE:
            yield from expire_revocation(group, timer.member_id, timer.generation, now_ms)
        case TimerKind.TARGET:
            cause = Cause(CauseKind.COORDINATOR_LOADED, now_ms)
            for _, member in sorted(group.members.items()):
                if not member.is_stored:
                    # Only a log that others wrote knows what a member owns who is not there.
                    yield from delete_member(group, member, cause)
            yield from _refresh(group, Cause(CauseKind.TOPIC_METADATA_CHANGED, now_ms), settings)
            yield Then(AssignTarget(group.group_id, group.epoch_cause or cause))


def decide_measured(group: StreamsGroup, command: TargetMeasured, now_ms: int, _settings: GroupSettings) -> Effects:
    """Note what the last target took: the next one waits the longer, the more that is."""
    yield Note(TargetTimed(group.group_id, command.cost_us, Cause(CauseKind.TARGET_MEASURED, now_ms)))


def decide_topic_changed(group: StreamsGroup, command: TopicChanged, now_ms: int, _settings: GroupSettings) -> Effects:
    """Have the group look at its topics again, once for all that change at a time."""
    if not group.is_dead and command.topic is not None:
        cause = Cause(CauseKind.TOPIC_METADATA_CHANGED, now_ms, detail=command.topic)
        yield Note(TopologyConfigured(group.group_id, None, cause))
        yield Arm(target_timer(group.group_id), now_ms)


def _refresh(group: StreamsGroup, cause: Cause, settings: GroupSettings) -> Effects:
    """Look at the topics again, and take the epoch on if the topology's tasks are not what they were.

    While topics are missing, one more that is there changes nothing yet.
    """
    if group.topology is None:
        return
    topology = derived(group.topology, settings.image)
    yield Note(TopologyConfigured(group.group_id, topology, cause))
    if topology.missing and group.members:
        yield WakeMembers(group.group_id, tuple(sorted(group.members)))  # their answers make what is missing
    stored_hash, epoch = topics_hash(group.topology, settings.image), validated_epoch_of(topology)
    is_other = epoch != group.validated_epoch or (topology.status is None and stored_hash != group.metadata_hash)
    if group.members and is_other:
        yield Append(replace(next_epoch(group, cause), metadata_hash=stored_hash, validated_epoch=epoch))


def decide_loaded(group: StreamsGroup, _command: Loaded, now_ms: int, settings: GroupSettings) -> Effects:
    """Take up a replayed group: every member has all the time it had, and what was due is done."""
    group_id = group.group_id
    for member_id, member in sorted(group.members.items()):
        yield Arm(member.session, now_ms + settings.streams_config_of(group_id).session_timeout_ms)
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            timer = revocation_timer(group_id, member_id, member.epoch)
            yield Arm(timer, now_ms + max(member.rebalance_timeout_ms, 0))
    if group.members:
        yield Note(GroupLoaded(group_id, Cause(CauseKind.COORDINATOR_LOADED, now_ms)))
        yield Then(TimerFired(target_timer(group_id)))


def decide_unload(group: StreamsGroup, _command: Unload, now_ms: int, _settings: GroupSettings) -> Effects:
    """Give the group up: no timer of it may fire."""
    for _, member in sorted(group.members.items()):
        yield from disarm(group, member)
    yield Disarm(target_timer(group.group_id))
    yield Note(GroupUnloaded(group.group_id, Cause(CauseKind.COORDINATOR_UNLOADED, now_ms)))
