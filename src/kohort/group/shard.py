"""One partition of `__consumer_offsets` as state: its groups, their offsets, and the two functions that matter.

`decide` reads a shard and a command and returns effects; it changes nothing. `apply` folds one event; nothing else
changes a shard. So a shard is a function of its log, whoever folds it: a live coordinator, one that takes over, a test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.group import (
    append_failure,
    classic,
    classic_apply,
    classic_exit,
    classic_join,
    classic_round,
    classic_sync,
    consumer,
    consumer_apply,
    consumer_classic,
    consumer_classic_exit,
    consumer_classic_join,
    consumer_classic_sync,
    consumer_exit,
    consumer_reconcile,
    migrate,
    offsets,
    target,
)
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
from kohort.group.consumer_commands import (
    AssignTarget,
    ConsumerHeartbeat,
    DowngradeIfDue,
    PrepareClassic,
    Reconcile,
    ReconcileJoin,
    TargetMeasured,
    TopicChanged,
)
from kohort.group.consumer_events import (
    ConsumerGroupDeleted,
    ConsumerHardEvent,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    GroupConverted,
    MemberAssignmentDeleted,
    MemberTargetDeleted,
    PartitionMetadataDeleted,
    RegexDeleted,
    TargetDeleted,
)
from kohort.group.consumer_group import ConsumerGroup
from kohort.group.effects import Append, Effects, Reply
from kohort.group.events import Event, GroupDeleted, GroupStored, OffsetCommitted, OffsetDeleted
from kohort.group.results import (
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    LeftMember,
    SyncResult,
)
from kohort.group.settings import GroupSettings
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

Offsets = dict[tuple[str, int], OffsetCommitted]
"""The committed offsets of one group, by topic and partition."""

_TOMBSTONES = (
    ConsumerMemberDeleted,
    MemberAssignmentDeleted,
    MemberTargetDeleted,
    PartitionMetadataDeleted,
    RegexDeleted,
    TargetDeleted,
)


class Shard:
    """The groups of one offsets partition and what they committed.

    `followers` are the consumer groups that subscribe to a topic by its name, `regex_followers` those that subscribe
    with an expression, which may match any.
    """

    __slots__ = ("followers", "groups", "offsets", "regex_followers", "settings")

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup | ConsumerGroup] = {}
        self.offsets: dict[str, Offsets] = {}
        self.followers: dict[str, set[str]] = {}
        self.regex_followers: set[str] = set()

    def classic_group(self, group_id: str) -> ClassicGroup:
        """Return a group that must be a classic one."""
        group = self.groups[group_id]
        assert isinstance(group, ClassicGroup), "rounds are for classic groups"
        return group


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
            classic_apply.apply(_classic_group(shard, event.group_id), event)
        case ConsumerGroupDeleted():
            _delete_consumer_group(shard, event.group_id)
        case _ if isinstance(event, ConsumerHardEvent):
            _apply_consumer(shard, event)
        case _:
            group = shard.groups.get(event.group_id)
            if isinstance(group, ConsumerGroup):
                consumer_apply.apply(group, event)  # type: ignore[arg-type]
            elif not isinstance(event, GroupConverted):
                classic_apply.apply(shard.groups[event.group_id], event)  # type: ignore[arg-type]


def _classic_group(shard: Shard, group_id: str) -> ClassicGroup:
    """Return the classic group of that id, a new one if there is none or an empty consumer group."""
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return group
    assert group is None or not group.members, f"{group_id}: a consumer group with members becomes no classic one"
    shard.regex_followers.discard(group_id)
    group = shard.groups[group_id] = ClassicGroup(group_id)
    return group


def _apply_consumer(shard: Shard, event: ConsumerHardEvent) -> None:
    group_id = event.group_id
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        if isinstance(event, _TOMBSTONES):
            return  # of what is not there
        # The record that made a classic group give way may have been compacted away, but not one of a member.
        assert group is None or not group.members, f"{group_id}: a classic group with members becomes no consumer one"
        group = shard.groups[group_id] = ConsumerGroup(group_id, shard.followers)
    consumer_apply.apply(group, event)
    if isinstance(event, ConsumerMemberStored | ConsumerMemberDeleted):
        if group.regex_subscribers:
            shard.regex_followers.add(group_id)
        else:
            shard.regex_followers.discard(group_id)


def _delete_consumer_group(shard: Shard, group_id: str) -> None:
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        assert not group.members, f"{group_id}: a group with members is not deleted"
        shard.regex_followers.discard(group_id)
        _remove(shard, group_id)


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
    if isinstance(group, ClassicGroup) and group.is_simple and not group.is_stored:
        # It existed only for its offsets: a compacted log would not know it any more, so neither do we.
        del shard.groups[event.group_id]


def _delete_group(shard: Shard, group_id: str) -> None:
    if not isinstance(shard.groups.get(group_id), ConsumerGroup):
        _remove(shard, group_id)


def _remove(shard: Shard, group_id: str) -> None:
    shard.groups.pop(group_id, None)
    if group_id in shard.offsets:
        # Only a replay sees offsets outlive their group's record.
        shard.groups[group_id] = ClassicGroup(group_id)


def followers_of(shard: Shard, topic: str) -> list[str]:
    """Return the consumer groups to which a change of a topic may matter, by id."""
    return sorted(shard.followers.get(topic, set()) | shard.regex_followers)


def _join(shard: Shard, command: Join, now_ms: int) -> Effects:
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
    if group.members or group.is_dead:
        return consumer_classic_join.decide_join(group, command, now_ms, settings)
    return _join_emptied(group, command, now_ms, settings)


def _join_emptied(group: ConsumerGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    """Let a classic member into a consumer group that is empty: if it gets in, a classic group takes its place."""
    effects = tuple(classic_join.decide_first_join(ClassicGroup(group.group_id), command, now_ms, settings))
    if any(isinstance(effect, Append) for effect in effects):
        member_id = command.member_id or command.new_member_id
        yield from consumer_exit.delete_effects(group, Cause(CauseKind.GROUP_CONVERTED, now_ms, member_id))
    yield from effects


def _sync(shard: Shard, command: Sync, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    if group is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID if command.group_id else ErrorCode.INVALID_GROUP_ID
        return (Reply(SyncResult(error)),)
    if isinstance(group, ConsumerGroup):
        return consumer_classic_sync.decide_sync(group, command, now_ms, shard.settings)
    return classic_sync.decide_sync(group, command, now_ms, shard.settings)


def _heartbeat(shard: Shard, command: Heartbeat, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    if group is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID if command.group_id else ErrorCode.INVALID_GROUP_ID
        return (Reply(HeartbeatResult(error)),)
    if type(group) is ClassicGroup:
        return classic.decide_heartbeat(group, command, now_ms)
    return consumer_classic.decide_heartbeat(group, command, now_ms)  # type: ignore[arg-type]


def _leave(shard: Shard, command: Leave, now_ms: int) -> Effects:
    if not command.group_id:
        return (Reply(LeaveResult(ErrorCode.INVALID_GROUP_ID)),)
    group = shard.groups.get(command.group_id)
    if group is None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        members = tuple(LeftMember(member.member_id, member.instance_id, unknown) for member in command.members)
        return (Reply(LeaveResult(ErrorCode.NONE, members)),)
    if isinstance(group, ConsumerGroup):
        return consumer_classic_exit.decide_leave(group, command, now_ms, shard.settings)
    return classic_exit.decide_leave(group, command, now_ms)


def _consumer_heartbeat(shard: Shard, command: ConsumerHeartbeat, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    if type(group) is ConsumerGroup:
        return consumer.decide_heartbeat(group, command, now_ms, shard.settings)
    return consumer.decide_first_heartbeat(group, command, now_ms, shard.settings)  # type: ignore[arg-type]


def _timer(shard: Shard, command: TimerFired, now_ms: int) -> Effects:
    group = shard.groups.get(command.timer.group_id)
    if isinstance(group, ConsumerGroup):
        return consumer.decide_timer(group, command.timer, now_ms, shard.settings)
    return () if group is None else classic.decide_timer(group, command.timer, now_ms)


def _loaded(shard: Shard, command: Loaded, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    if isinstance(group, ConsumerGroup):
        return consumer.decide_loaded(group, now_ms, shard.settings)
    return () if group is None else classic.decide_loaded(group, now_ms, shard.settings)


def _unload(shard: Shard, command: Unload, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    if isinstance(group, ConsumerGroup):
        return consumer.decide_unload(group, now_ms)
    return () if group is None else classic.decide_unload(group, now_ms)


def _prepare_classic(shard: Shard, command: PrepareClassic, now_ms: int) -> Effects:
    group = shard.groups.get(command.group_id)
    return consumer_classic.decide_prepare(group, command, now_ms) if isinstance(group, ConsumerGroup) else ()


def _open_round(shard: Shard, command: OpenRound, now_ms: int) -> Effects:
    return classic_round.open_round(shard.classic_group(command.group_id), command, now_ms, shard.settings)


def _check_join(shard: Shard, command: CheckJoin, now_ms: int) -> Effects:
    return classic_round.check_join(shard.classic_group(command.group_id), now_ms, shard.settings)


def _form_generation(shard: Shard, command: FormGeneration, now_ms: int) -> Effects:
    return classic_round.form_generation(shard.classic_group(command.group_id), command, now_ms)


def _in_consumer_group(decision: Callable[[ConsumerGroup, Any, int, GroupSettings], Effects]) -> _Decision:
    """Return a decision that a consumer group makes, and that no other group needs."""

    def decide_there(shard: Shard, command: Command, now_ms: int) -> Effects:
        group = shard.groups.get(command.group_id)
        return decision(group, command, now_ms, shard.settings) if isinstance(group, ConsumerGroup) else ()

    return decide_there


_Decision = Callable[[Shard, Any, int], Effects]

_DECISIONS: dict[type, _Decision] = {
    Heartbeat: _heartbeat,
    ConsumerHeartbeat: _consumer_heartbeat,
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
    AppendFailed: append_failure.decide_append_failed,
    AssignTarget: _in_consumer_group(target.decide_assign_target),
    Reconcile: _in_consumer_group(consumer_reconcile.decide_reconcile),
    TargetMeasured: _in_consumer_group(consumer.decide_measured),
    TopicChanged: _in_consumer_group(consumer.decide_topic_changed),
    ReconcileJoin: _in_consumer_group(consumer_classic_join.decide_reconcile),
    PrepareClassic: _prepare_classic,
    DowngradeIfDue: _in_consumer_group(migrate.decide_downgrade),
}
