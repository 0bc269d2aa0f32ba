"""One partition of `__consumer_offsets` as state: its groups, their offsets, and the two functions that matter.

`decide` reads a shard and a command and returns effects; it changes nothing. `apply` folds one event; nothing else
changes a shard. So a shard is a function of its log, whoever folds it: a live coordinator, one that takes over, a test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.group import classic, classic_apply, classic_exit, classic_join, classic_round, classic_sync, offsets
from kohort.group.classic_group import ClassicGroup
from kohort.group.commands import (
    AppendFailed,
    CheckJoin,
    Command,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ForgetTopic,
    FormGeneration,
    Heartbeat,
    Join,
    Leave,
    Loaded,
    OpenRound,
    Sync,
    TimerFired,
    Unload,
)
from kohort.group.effects import Effects, Reply
from kohort.group.events import Event, GroupDeleted, GroupStored, OffsetCommitted, OffsetDeleted
from kohort.group.results import (
    CommitResult,
    DeleteGroupResult,
    DeleteOffsetsResult,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    LeftMember,
    SyncResult,
)
from kohort.group.settings import GroupSettings
from kohort.model.errors import ErrorCode

Offsets = dict[tuple[str, int], OffsetCommitted]
"""The committed offsets of one group, by topic and partition."""


class Shard:
    """The groups of one offsets partition and what they committed."""

    __slots__ = ("groups", "offsets", "settings")

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets: dict[str, Offsets] = {}


def decide(shard: Shard, command: Command, now_ms: int) -> Effects:
    """Return what `command` leads to at `now_ms`, milliseconds since the epoch. Changes nothing."""
    return _DECISIONS[type(command)](shard, command, now_ms)


def apply(shard: Shard, event: Event) -> None:
    """Change the shard by what happened."""
    if type(event) is OffsetCommitted:
        _commit(shard, event)
        return
    match event:
        case OffsetDeleted():
            _forget_offset(shard, event)
        case GroupDeleted():
            _delete_group(shard, event.group_id)
        case GroupStored():
            group = shard.groups.get(event.group_id)
            if group is None:
                group = shard.groups[event.group_id] = ClassicGroup(event.group_id)
            classic_apply.apply(group, event)
        case OffsetCommitted():
            _commit(shard, event)
        case _:
            classic_apply.apply(shard.groups[event.group_id], event)  # type: ignore[arg-type]


def _commit(shard: Shard, event: OffsetCommitted) -> None:
    group_id = event.group_id
    held = shard.offsets.get(group_id)
    if held is None:
        held = shard.offsets[group_id] = {}
        if group_id not in shard.groups:
            shard.groups[group_id] = ClassicGroup(group_id)
    held[event.topic, event.partition] = event


def _forget_offset(shard: Shard, event: OffsetDeleted) -> None:
    held = shard.offsets.get(event.group_id, {})
    held.pop((event.topic, event.partition), None)
    if held:
        return
    shard.offsets.pop(event.group_id, None)
    group = shard.groups.get(event.group_id)
    if group is not None and group.is_simple and not group.is_stored:
        # It existed only for its offsets: a compacted log would not know it any more, so neither do we.
        del shard.groups[event.group_id]


def _delete_group(shard: Shard, group_id: str) -> None:
    shard.groups.pop(group_id, None)
    if group_id in shard.offsets:
        # Only a replay sees offsets outlive their group's record.
        shard.groups[group_id] = ClassicGroup(group_id)


def _join(shard: Shard, command: Join, now_ms: int) -> Effects:
    settings = shard.settings
    if not command.group_id:
        return (Reply(JoinResult(ErrorCode.INVALID_GROUP_ID, command.member_id)),)
    if not settings.min_session_timeout_ms <= command.session_timeout_ms <= settings.max_session_timeout_ms:
        return (Reply(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, command.member_id)),)
    group = shard.groups.get(command.group_id)
    if group is None:
        return classic_join.decide_first_join(ClassicGroup(command.group_id), command, now_ms, settings)
    return classic_join.decide_join(group, command, now_ms, settings)


def _sync(shard: Shard, command: Sync, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    if group is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID if command.group_id else ErrorCode.INVALID_GROUP_ID
        return (Reply(SyncResult(error)),)
    return classic_sync.decide_sync(group, command, now_ms, shard.settings)


def _heartbeat(shard: Shard, command: Heartbeat, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    if group is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID if command.group_id else ErrorCode.INVALID_GROUP_ID
        return (Reply(HeartbeatResult(error)),)
    return classic.decide_heartbeat(group, command, now_ms)


def _leave(shard: Shard, command: Leave, now_ms: int) -> Effects:
    if not command.group_id:
        return (Reply(LeaveResult(ErrorCode.INVALID_GROUP_ID)),)
    group = shard.groups.get(command.group_id)
    if group is None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        members = tuple(LeftMember(member.member_id, member.instance_id, unknown) for member in command.members)
        return (Reply(LeaveResult(ErrorCode.NONE, members)),)
    return classic_exit.decide_leave(group, command, now_ms)


def _timer(shard: Shard, command: TimerFired, now_ms: int) -> Effects:
    group = shard.groups.get(command.timer.group_id)
    return () if group is None else classic.decide_timer(group, command.timer, now_ms)


def _loaded(shard: Shard, command: Loaded, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    return () if group is None else classic.decide_loaded(group, now_ms, shard.settings)


def _unload(shard: Shard, command: Unload, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    return () if group is None else classic.decide_unload(group, now_ms)


def _open_round(shard: Shard, command: OpenRound, now_ms: int) -> Effects:
    return classic_round.open_round(shard.groups[command.group_id], command, now_ms, shard.settings)


def _check_join(shard: Shard, command: CheckJoin, now_ms: int) -> Effects:
    return classic_round.check_join(shard.groups[command.group_id], now_ms, shard.settings)


def _form_generation(shard: Shard, command: FormGeneration, now_ms: int) -> Effects:
    return classic_round.form_generation(shard.groups[command.group_id], command, now_ms)


def _append_failed(shard: Shard, failed: AppendFailed, now_ms: int) -> Effects:
    """Answer a decision that could not be stored: the command's own answer, with the error that its sender knows."""
    command = failed.command
    error = append_error(failed.error, is_join=isinstance(command, Join))
    match command:
        case Join():
            return (Reply(JoinResult(error, "")),)
        case Sync():
            return classic_sync.fail_sync(shard.groups[command.group_id], error, now_ms)
        case CommitOffsets():
            return (Reply(CommitResult(error)),)
        case DeleteOffsets():
            return (Reply(DeleteOffsetsResult(error)),)
        case DeleteGroup():
            return (Reply(DeleteGroupResult(error)),)
        case FormGeneration():
            group = shard.groups[command.group_id]
            return classic_round.fail_generation(group, append_error(failed.error, is_join=True), now_ms)
        case _:
            return ()


def append_error(error: ErrorCode, *, is_join: bool = False) -> ErrorCode:
    """Return what a client is told when a record of its group could not be appended: something it can act upon."""
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


_DECISIONS: dict[type, Callable[[Shard, Any, int], Effects]] = {
    Heartbeat: _heartbeat,
    CommitOffsets: offsets.decide_commit,
    Join: _join,
    Sync: _sync,
    Leave: _leave,
    TimerFired: _timer,
    OpenRound: _open_round,
    CheckJoin: _check_join,
    FormGeneration: _form_generation,
    DeleteOffsets: offsets.decide_delete_offsets,
    DeleteGroup: offsets.decide_delete_group,
    ExpireOffsets: offsets.decide_expiry,
    ForgetTopic: offsets.decide_forget_topic,
    Loaded: _loaded,
    Unload: _unload,
    AppendFailed: _append_failed,
}
