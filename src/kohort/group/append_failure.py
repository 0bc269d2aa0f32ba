"""What follows when the records of a decision could not be stored, so that nothing of it happened.

Whoever waits for it is answered with an error that its client can act upon; what nobody waits for is tried again.
"""

from __future__ import annotations

from kohort.group.classic import round as classic_round
from kohort.group.classic import sync_group as classic_sync
from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import (
    AppendFailed,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    FormGeneration,
    Join,
    Leave,
    Sync,
    TimerFired,
)
from kohort.group.consumer import classic_join as consumer_classic_join
from kohort.group.consumer import machine as consumer
from kohort.group.consumer.commands import (
    AssignTarget,
    ConsumerHeartbeat,
    DowngradeIfDue,
    PrepareClassic,
    Reconcile,
    ReconcileJoin,
    TopicChanged,
)
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.effects import Arm, Effects, Reply
from kohort.group.results import (
    CommitResult,
    ConsumerHeartbeatResult,
    DeleteGroupResult,
    DeleteOffsetsResult,
    JoinResult,
    LeaveResult,
    SyncResult,
)
from kohort.group.shard import Shard
from kohort.model.errors import ErrorCode


def decide_append_failed(shard: Shard, failed: AppendFailed, now_ms: int) -> Effects:
    """Answer a decision that could not be stored: the command's own answer, with the error that its sender knows."""
    command = failed.command
    error = append_error(failed.error, is_join=isinstance(command, Join))
    match command:
        case Join():
            return (Reply(JoinResult(error, "")),)
        case Sync():
            group = shard.groups.get(command.group_id)
            if isinstance(group, ClassicGroup):
                return classic_sync.fail_sync(group, error, now_ms)
            return (Reply(SyncResult(error)),)
        case CommitOffsets():
            return (Reply(CommitResult(error)),)
        case DeleteOffsets():
            return (Reply(DeleteOffsetsResult(error)),)
        case DeleteGroup():
            return (Reply(DeleteGroupResult(error)),)
        case FormGeneration():
            error = append_error(failed.error, is_join=True)
            return classic_round.fail_generation(shard.classic_group(command.group_id), error, now_ms)
        case ConsumerHeartbeat() | Reconcile():
            return (Reply(ConsumerHeartbeatResult(error, "what the group would be could not be stored")),)
        case ReconcileJoin():
            group = shard.groups[command.group_id]
            assert isinstance(group, ConsumerGroup), "classic members are reconciled in consumer groups"
            error = append_error(failed.error, is_join=True)
            return consumer_classic_join.fail_reconcile(group, command, error, now_ms)
        case DowngradeIfDue(then=Join()):
            return (Reply(JoinResult(append_error(failed.error, is_join=True), "")),)
        case Leave():
            return (Reply(LeaveResult(error)),)
        case TimerFired() if isinstance(shard.groups.get(command.group_id), ConsumerGroup):
            # To evict somebody from a consumer group is a record; whoever is silent is so a little later as well.
            return (Arm(command.timer, now_ms + consumer.TARGET_RETRY_MS),)
        case AssignTarget() | TopicChanged() | PrepareClassic() | DowngradeIfDue():
            return consumer.retry_later(command.group_id, now_ms)
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
