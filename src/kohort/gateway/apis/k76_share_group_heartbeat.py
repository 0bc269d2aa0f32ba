"""ShareGroupHeartbeat (KIP-932): parked, and not observed, since partitions of a share group have several owners."""

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
from kohort.wire.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def command_of(
    message: ShareGroupHeartbeatRequest, _version: int, origin: RequestOrigin, _client_id: str
) -> UnobservedHeartbeat:
    """Return what parking needs of a share member's heartbeat."""
    is_steady = message.member_epoch > 0 and message.subscribed_topic_names is None
    return UnobservedHeartbeat(
        GroupProtocol.SHARE, message.group_id, message.member_id, message.member_epoch, is_steady, origin.margin_ms
    )


def answer(
    connection: Connection,
    exchange: Exchange,
    command: UnobservedHeartbeat,
    message: ShareGroupHeartbeatResponse,
    frame: Buffer,
    now_ms: int,
) -> Buffer:
    """Take the member's epoch."""
    result = _result(message)
    share_answer(connection, exchange, command, result, frame)
    return pass_answer(connection, command, result, frame, now_ms)


def observe_answer(
    _groups: ObservedGroups,
    _command: UnobservedHeartbeat,
    message: ShareGroupHeartbeatResponse,
    _version: int,
    _now_ms: int,
) -> ConsumerHeartbeatResult:
    """Return what an answer contains."""
    return _result(message)


def _result(message: ShareGroupHeartbeatResponse) -> ConsumerHeartbeatResult:
    # No member of a share group acknowledges what it is assigned.
    return ConsumerHeartbeatResult(
        error=error_for(message.error_code),
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=message.heartbeat_interval_ms,
    )


API = GroupApi(
    request_type=ShareGroupHeartbeatRequest,
    response_type=ShareGroupHeartbeatResponse,
    command_of=command_of,
    request=request,
    answer=answer,
    observe_answer=observe_answer,
)
