"""StreamsGroupHeartbeat (KIP-1071): parked, and not observed, since streams groups own tasks and no partitions."""

from __future__ import annotations

from kohort.gateway.apis.api import GroupApi, RequestOrigin
from kohort.gateway.apis.connection_state import Connection
from kohort.gateway.apis.member_epochs import pass_answer, request, share_answer
from kohort.gateway.observing.epoch_heartbeats import UnobservedHeartbeat
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.policies.policies import GroupProtocol
from kohort.gateway.relay.relay import Exchange
from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.errors import error_for
from kohort.wire.codec import Buffer
from kohort.wire.messages import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse


def command_of(
    message: StreamsGroupHeartbeatRequest, _version: int, origin: RequestOrigin, _client_id: str
) -> UnobservedHeartbeat:
    """Return what parking needs of a streams member's heartbeat."""
    tasks = (message.active_tasks, message.standby_tasks, message.warmup_tasks)
    owned = None if all(each is None for each in tasks) else tasks
    changes = (
        owned,
        message.topology,
        message.process_id,
        message.user_endpoint,
        message.client_tags,
        message.task_offsets,
        message.task_end_offsets,
    )
    is_steady = (
        message.member_epoch > 0
        and all(each is None for each in changes)
        and message.rebalance_timeout_ms == -1
        and not message.shutdown_application
    )
    sender = message.group_id, message.member_id, message.member_epoch
    return UnobservedHeartbeat(GroupProtocol.STREAMS, *sender, is_steady, origin.margin_ms, owned)


def answer(
    connection: Connection,
    exchange: Exchange,
    command: UnobservedHeartbeat,
    message: StreamsGroupHeartbeatResponse,
    frame: Buffer,
    now_ms: int,
) -> Buffer:
    """Take the member's epoch, and whether its tasks have changed."""
    result = _result(message)
    share_answer(connection, exchange, command, result, frame)
    return pass_answer(connection, command, result, frame, now_ms)


def observe_answer(
    _groups: ObservedGroups,
    _command: UnobservedHeartbeat,
    message: StreamsGroupHeartbeatResponse,
    _version: int,
    _now_ms: int,
) -> ConsumerHeartbeatResult:
    """Return what an answer contains."""
    return _result(message)


def _result(message: StreamsGroupHeartbeatResponse) -> ConsumerHeartbeatResult:
    # An assignment of tasks is to be acknowledged, whichever they are.
    is_same = message.active_tasks is None and message.standby_tasks is None and message.warmup_tasks is None
    return ConsumerHeartbeatResult(
        error=error_for(message.error_code),
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=message.heartbeat_interval_ms,
        assignment=None if is_same else (),
    )


API = GroupApi(
    request_type=StreamsGroupHeartbeatRequest,
    response_type=StreamsGroupHeartbeatResponse,
    command_of=command_of,
    request=request,
    answer=answer,
    observe_answer=observe_answer,
)
