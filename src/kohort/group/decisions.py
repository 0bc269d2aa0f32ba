"""Which decision a command asks for, by what its group is now.

`decide` reads a shard and a command and returns a `Decision`; it changes nothing. The decisions themselves are those of
classic groups, of consumer groups, of classic members inside these, of streams groups, of conversions, and of offsets.
If the records of a decision could not be stored, nothing of it happened: a sender that waits is answered with an error
that its client can act upon; what no client waits for is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kohort.group import committed_offsets
from kohort.group.classic import exit as classic_exit
from kohort.group.classic import join_group as classic_join
from kohort.group.classic import machine as classic
from kohort.group.classic import round as classic_round
from kohort.group.classic import sync_group as classic_sync
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import (
    AppendFailed,
    AssignTarget,
    CheckJoin,
    Command,
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DowngradeIfDue,
    ExpireOffsets,
    ForgetTopic,
    FormGeneration,
    GrowTopic,
    Heartbeat,
    Join,
    Leave,
    Loaded,
    OpenRound,
    PrepareClassic,
    Reconcile,
    ReconcileJoin,
    ResolveExpressions,
    Sync,
    TargetMeasured,
    TimerFired,
    TopicChanged,
    Unload,
)
from kohort.group.consumer import answer as consumer_answer
from kohort.group.consumer import classic_join as consumer_classic_join
from kohort.group.consumer import classic_members as consumer_classic
from kohort.group.consumer import exit as consumer_exit
from kohort.group.consumer import machine as consumer
from kohort.group.consumer import target
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.consumer.join import regex_refusal, request_refusal
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Decision, Disarm, Effects, Reply
from kohort.group.events import GroupDeleted
from kohort.group.group_timers import session_timer
from kohort.group.join_refusals import with_refusals
from kohort.group.migration import conversion
from kohort.group.results import (
    CommitResult,
    ConsumerHeartbeatResult,
    DeleteGroupResult,
    DeleteOffsetsResult,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    LeftMember,
    Result,
    SyncResult,
    refused,
)
from kohort.group.shard import Shard
from kohort.group.streams import answer as streams_answer
from kohort.group.streams import exit as streams_exit
from kohort.group.streams import machine as streams
from kohort.group.streams import target as streams_target
from kohort.group.streams.describe_topology import DescribeTopology, DescribeTopologyResult, decide_description
from kohort.group.streams.group import StreamsGroup
from kohort.group.streams.heartbeat import RetargetForLags, StreamsHeartbeat, StreamsHeartbeatResult, StreamsReconcile
from kohort.group.streams.heartbeat import refused as streams_refused
from kohort.group.streams.heartbeat import request_refusal as streams_request_refusal
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode


def decide(shard: Shard, command: Command, now_ms: int) -> Decision:
    """Return what `command` leads to at `now_ms`, milliseconds since the epoch. Changes nothing."""
    return Decision(_DECISIONS[type(command)](shard, command, now_ms))


def _join(shard: Shard, command: Join, now_ms: int) -> Effects:
    return with_refusals(command, _decide_join(shard, command, now_ms), now_ms)


def _decide_join(shard: Shard, command: Join, now_ms: int) -> Effects:
    settings = shard.settings
    if not command.group_id:
        return (Reply(JoinResult(ErrorCode.INVALID_GROUP_ID, command.member_id)),)
    if not settings.min_session_timeout_ms <= command.session_timeout_ms <= settings.max_session_timeout_ms:
        return (Reply(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, command.member_id)),)
    group = shard.groups.get(command.group_id)
    if group is None:
        return classic_join.decide_first_join(ClassicGroup(command.group_id), command, now_ms, settings)
    if isinstance(group, ClassicGroup):
        return classic_join.decide_join(group, command, now_ms, settings)
    if isinstance(group, StreamsGroup) and (group.members or group.is_dead):
        error = ErrorCode.NOT_COORDINATOR if group.is_dead else ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return (Reply(JoinResult(error, command.member_id)),)
    if isinstance(group, ConsumerGroup) and (group.members or group.is_dead):
        return consumer_classic_join.decide_join(group, command, now_ms, settings)
    return _join_emptied(group, command, now_ms, settings)


def _join_emptied(group: ConsumerGroup | StreamsGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    """Let a classic member into an empty group of another type: if it gets in, a classic group takes its place."""
    effects = tuple(classic_join.decide_first_join(ClassicGroup(group.group_id), command, now_ms, settings))
    if any(isinstance(effect, Append) for effect in effects):
        member_id = command.member_id or command.new_member_id
        cause = Cause(CauseKind.GROUP_CONVERTED, now_ms, member_id)
        if isinstance(group, StreamsGroup):
            yield from streams_exit.delete_effects(group, cause)
        else:
            yield from consumer_exit.delete_effects(group, cause)
    yield from effects


def _sync(shard: Shard, command: Sync, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    if group is None or isinstance(group, StreamsGroup):
        error = ErrorCode.UNKNOWN_MEMBER_ID if command.group_id else ErrorCode.INVALID_GROUP_ID
        return (Reply(SyncResult(error)),)
    if isinstance(group, ConsumerGroup):
        return consumer_classic.decide_sync(group, command, now_ms, shard.settings)
    return classic_sync.decide_sync(group, command, now_ms, shard.settings)


def _heartbeat(shard: Shard, command: Heartbeat, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    if group is None or type(group) is StreamsGroup:
        error = ErrorCode.UNKNOWN_MEMBER_ID if command.group_id else ErrorCode.INVALID_GROUP_ID
        return (Reply(HeartbeatResult(error)),)
    if type(group) is ClassicGroup:
        return classic.decide_heartbeat(group, command, now_ms)
    return consumer_classic.decide_heartbeat(group, command, now_ms)  # type: ignore[arg-type]


def _leave(shard: Shard, command: Leave, now_ms: int) -> Effects:
    if not command.group_id:
        return (Reply(LeaveResult(ErrorCode.INVALID_GROUP_ID)),)
    group = shard.groups.get(command.group_id)
    if group is None or isinstance(group, StreamsGroup):
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        members = tuple(LeftMember(member.member_id, member.instance_id, unknown) for member in command.members)
        return (Reply(LeaveResult(ErrorCode.NONE, members)),)
    if isinstance(group, ConsumerGroup):
        return consumer_exit.decide_classic_leave(group, command, now_ms, shard.settings)
    return classic_exit.decide_leave(group, command, now_ms)


def _consumer_heartbeat(shard: Shard, command: ConsumerHeartbeat, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    if type(group) is ConsumerGroup:
        effects = consumer.decide_heartbeat(group, command, now_ms, shard.settings)
    else:
        effects = _first_heartbeat(group, command, now_ms, shard.settings)  # type: ignore[arg-type]
    return effects if command.member_epoch else with_refusals(command, effects, now_ms)


def _first_heartbeat(
    group: ClassicGroup | StreamsGroup | None, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings
) -> Effects:
    """Let a member into a group that is no consumer group: there is none, or a classic one is to become one."""
    refusal = request_refusal(command, settings)
    if refusal is None and command.member_epoch != 0:
        text = f"group {command.group_id} is no consumer group: the member must revoke its partitions and join again"
        refusal = refused(ErrorCode.GROUP_ID_NOT_FOUND, text)
    if refusal is None and isinstance(group, StreamsGroup):
        refusal = refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} is not a consumer group.")
    if refusal is None:
        refusal = regex_refusal(None, command, settings)
    if refusal is not None:
        yield Reply(refusal)
    elif group is None or isinstance(group, StreamsGroup):
        yield from consumer.decide_heartbeat(ConsumerGroup(command.group_id), command, now_ms, settings)
    elif group.phase is Phase.DEAD:
        yield Reply(refused(ErrorCode.NOT_COORDINATOR, "the coordinator of the group is another one now"))
    elif group.members or group.phase is not Phase.EMPTY:
        yield from conversion.decide_upgrade(group, command, now_ms, settings)
    else:
        member_id = command.member_id or command.new_member_id
        for pending_id in sorted(group.pending):
            yield Disarm(session_timer(group.group_id, pending_id))
        if group.is_stored:
            yield Append(GroupDeleted(group.group_id, Cause(CauseKind.GROUP_CONVERTED, now_ms, member_id)))
        yield from consumer.decide_heartbeat(ConsumerGroup(command.group_id), command, now_ms, settings)


def _streams_heartbeat(shard: Shard, command: StreamsHeartbeat, now_ms: int) -> Effects:
    """Pass a heartbeat to its streams group; an empty classic group becomes one, with its offsets."""
    group = shard.groups.get(command.group_id)
    if isinstance(group, StreamsGroup):
        return streams.decide_heartbeat(group, command, now_ms, shard.settings)
    return _first_streams_heartbeat(shard, group, command, now_ms)


def _first_streams_heartbeat(
    shard: Shard, group: ClassicGroup | ConsumerGroup | None, command: StreamsHeartbeat, now_ms: int
) -> Effects:
    refusal = streams_request_refusal(command)
    is_free = group is None or (isinstance(group, ClassicGroup) and group.phase is Phase.EMPTY and not group.members)
    if refusal is None and (command.member_epoch != 0 or not is_free):
        what = "not found" if group is None else "is not a streams group"
        refusal = streams_refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} {what}.")
    if refusal is not None:
        yield Reply(refusal)
        return
    if isinstance(group, ClassicGroup):
        for pending_id in sorted(group.pending):
            yield Disarm(session_timer(group.group_id, pending_id))
        if group.is_stored:
            cause = Cause(CauseKind.GROUP_CONVERTED, now_ms, command.member_id)
            yield Append(GroupDeleted(group.group_id, cause))
    yield from streams.decide_heartbeat(StreamsGroup(command.group_id), command, now_ms, shard.settings)


def _describe_topology(shard: Shard, command: DescribeTopology, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    if isinstance(group, StreamsGroup):
        return decide_description(group, command, now_ms)
    text = f"Group {command.group_id} {'not found' if group is None else 'is not a streams group'}."
    return (Reply(DescribeTopologyResult(ErrorCode.GROUP_ID_NOT_FOUND, text)),)


def _by_type(
    classic: _Decisions | None = None, consumer: _Decisions | None = None, of_streams: _Decisions | None = None
) -> _Decision:
    """Return the decision that a group makes by its type; where there is none, nothing is to be done."""
    by_type = {ClassicGroup: classic, ConsumerGroup: consumer, StreamsGroup: of_streams}

    def decide_by_type(shard: Shard, command: Command, now_ms: int) -> Effects:
        group = shard.groups.get(command.group_id)
        decision = None if group is None else by_type[type(group)]
        return () if group is None or decision is None else decision(group, command, now_ms, shard.settings)

    return decide_by_type


def _in_a_round(decision: _Decisions) -> _Decision:
    """Return a decision about the round of a group, which must be a classic one."""
    return lambda shard, command, now_ms: decision(
        shard.classic_group(command.group_id), command, now_ms, shard.settings
    )


def decide_append_failed(shard: Shard, failed: AppendFailed, now_ms: int) -> Effects:
    """Answer a decision that could not be stored: the command's own answer, with the error that its sender knows."""
    command = failed.command
    group = shard.groups.get(command.group_id)
    error = append_error(failed.error, is_join=isinstance(command, Join))
    match command:
        case Sync() if isinstance(group, ClassicGroup):
            return classic_sync.fail_sync(group, error, now_ms)
        case FormGeneration():
            error = append_error(failed.error, is_join=True)
            return classic_round.fail_generation(shard.classic_group(command.group_id), error, now_ms)
        case ConsumerHeartbeat() | Reconcile():
            return (Reply(ConsumerHeartbeatResult(error, "what the group would be could not be stored")),)
        case ReconcileJoin():
            assert isinstance(group, ConsumerGroup), "classic members are reconciled in consumer groups"
            error = append_error(failed.error, is_join=True)
            return consumer_classic_join.fail_reconcile(group, command, error, now_ms)
        case DowngradeIfDue(then=Join()):
            return (Reply(JoinResult(append_error(failed.error, is_join=True), "")),)
        case TimerFired() if not isinstance(group, ClassicGroup):
            # To evict a member from such a group is a record; one that sends nothing is so a little later as well.
            return (Arm(command.timer, now_ms + consumer.TARGET_RETRY_MS),)
        case AssignTarget() | TopicChanged() | ResolveExpressions() | PrepareClassic() | DowngradeIfDue():
            return consumer.retry_later(command.group_id, now_ms)
        case _:
            result = ERROR_RESULTS.get(type(command))
            return () if result is None else (Reply(result(error)),)


ERROR_RESULTS: dict[type[Command], Callable[[ErrorCode], Result]] = {
    Join: partial(JoinResult, member_id=""),
    Sync: SyncResult,
    Leave: LeaveResult,
    CommitOffsets: CommitResult,
    DeleteOffsets: DeleteOffsetsResult,
    DeleteGroup: DeleteGroupResult,
    StreamsHeartbeat: StreamsHeartbeatResult,
    StreamsReconcile: StreamsHeartbeatResult,
    DescribeTopology: DescribeTopologyResult,
}
"""Results of commands that were not carried out."""


def append_error(error: ErrorCode, *, is_join: bool = False) -> ErrorCode:
    """Return the error for a client when a record of its group could not be appended: something it can act upon."""
    match error:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.NOT_ENOUGH_REPLICAS | ErrorCode.REQUEST_TIMED_OUT:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE | ErrorCode.INVALID_FETCH_SIZE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case ErrorCode.NETWORK_EXCEPTION if not is_join:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case _:
            return error


_Decision = Callable[[Shard, Any, int], Effects]
_Decisions = Callable[[Any, Any, int, GroupSettings], Effects]

_DECISIONS: dict[type, _Decision] = {
    Heartbeat: _heartbeat,
    ConsumerHeartbeat: _consumer_heartbeat,
    CommitOffsets: committed_offsets.decide_commit,
    StreamsHeartbeat: _streams_heartbeat,
    DescribeTopology: _describe_topology,
    Join: _join,
    Sync: _sync,
    Leave: _leave,
    TimerFired: _by_type(classic.decide_timer, consumer.decide_timer, streams.decide_timer),
    OpenRound: _in_a_round(classic_round.open_round),
    CheckJoin: _in_a_round(classic_round.check_join),
    FormGeneration: _in_a_round(classic_round.form_generation),
    DeleteOffsets: committed_offsets.decide_delete_offsets,
    DeleteGroup: committed_offsets.decide_delete_group,
    ExpireOffsets: committed_offsets.decide_expiry,
    ForgetTopic: committed_offsets.decide_forget_topic,
    GrowTopic: committed_offsets.decide_grow_topic,
    Loaded: _by_type(classic.decide_loaded, consumer.decide_loaded, streams.decide_loaded),
    Unload: _by_type(classic.decide_unload, consumer.decide_unload, streams.decide_unload),
    AppendFailed: decide_append_failed,
    AssignTarget: _by_type(consumer=target.decide_assign_target, of_streams=streams_target.decide_assign_target),
    Reconcile: _by_type(consumer=consumer_answer.decide_reconcile),
    TargetMeasured: _by_type(consumer=consumer.decide_measured, of_streams=streams.decide_measured),
    TopicChanged: _by_type(consumer=consumer.decide_topic_changed, of_streams=streams.decide_topic_changed),
    ResolveExpressions: _by_type(consumer=consumer.decide_resolve),
    RetargetForLags: _by_type(of_streams=streams_target.decide_retarget),
    StreamsReconcile: _by_type(of_streams=streams_answer.decide_reconcile),
    ReconcileJoin: _by_type(consumer=consumer_classic_join.decide_reconcile),
    PrepareClassic: _by_type(consumer=consumer_classic.decide_prepare),
    DowngradeIfDue: _by_type(consumer=conversion.decide_downgrade),
}
