"""Classic members of a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup in the terms of KIP-848."""

from __future__ import annotations

from kohort.group.commands import Heartbeat, Join, Leave, Sync
from kohort.group.consumer_commands import PrepareClassic, ReconcileJoin
from kohort.group.consumer_group import ConsumerGroup
from kohort.group.effects import Effects
from kohort.group.settings import GroupSettings
from kohort.group.timers import Timer
from kohort.model.errors import ErrorCode


def decide_join(group: ConsumerGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    """Decide JoinGroup in a consumer group that has members."""
    raise NotImplementedError


def decide_sync(group: ConsumerGroup, command: Sync, now_ms: int, settings: GroupSettings) -> Effects:
    """Decide SyncGroup in a consumer group."""
    raise NotImplementedError


def decide_heartbeat(group: ConsumerGroup, command: Heartbeat, now_ms: int) -> Effects:
    """Decide Heartbeat in a consumer group: a tuple, always."""
    raise NotImplementedError


def decide_leave(group: ConsumerGroup, command: Leave, now_ms: int, settings: GroupSettings) -> Effects:
    """Decide LeaveGroup in a consumer group; native members may be in the batch."""
    raise NotImplementedError


def decide_timer(group: ConsumerGroup, timer: Timer, now_ms: int, settings: GroupSettings) -> Effects:
    """Decide a timer of kind JOIN or SYNC, which belong to one classic member."""
    raise NotImplementedError


def decide_reconcile(group: ConsumerGroup, command: ReconcileJoin, now_ms: int, settings: GroupSettings) -> Effects:
    """Move a classic member towards its target, and answer its JoinGroup or keep it waiting."""
    raise NotImplementedError


def decide_prepare(group: ConsumerGroup, command: PrepareClassic, now_ms: int, settings: GroupSettings) -> Effects:
    """Have classic members join again, and answer waiting joins."""
    raise NotImplementedError


def release(group: ConsumerGroup, member_id: str, error: ErrorCode) -> Effects:
    """Answer the waiting JoinGroup of a member that goes, and disarm its join and sync timers. Nothing for a native."""
    raise NotImplementedError


def decide_loaded(group: ConsumerGroup, now_ms: int) -> Effects:
    """Arm the join and sync timers of the classic members of a group that was taken up."""
    raise NotImplementedError


def decide_unload(group: ConsumerGroup) -> Effects:
    """Answer every waiting JoinGroup with NOT_COORDINATOR, and disarm the join and sync timers."""
    raise NotImplementedError
