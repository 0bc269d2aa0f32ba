"""ConsumerGroupHeartbeat (KIP-848): its answer shows its member's epoch, and what it was granted."""

from __future__ import annotations

from kohort.gateway.apis.api import GroupApi, RequestOrigin
from kohort.gateway.apis.connection_state import Connection
from kohort.gateway.apis.member_epochs import pass_answer, request, share_answer
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.relay.relay import Exchange
from kohort.group.commands import ConsumerHeartbeat
from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.errors import error_for
from kohort.model.id_partitions import id_partitions
from kohort.node.apis.k68_consumer_group_heartbeat import heartbeat_command
from kohort.wire.codec import Buffer
from kohort.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


def command_of(
    message: ConsumerGroupHeartbeatRequest, version: int, origin: RequestOrigin, client_id: str
) -> ConsumerHeartbeat:
    """Return what a heartbeat requests."""
    return heartbeat_command(message, version, client_id, origin.client_host, origin.software)


def answer(
    connection: Connection,
    exchange: Exchange,
    command: ConsumerHeartbeat,
    message: ConsumerGroupHeartbeatResponse,
    frame: Buffer,
    now_ms: int,
) -> Buffer:
    """Take the member's epoch and assignment."""
    result = _result(message)
    share_answer(connection, exchange, command, result, frame)
    connection.rooms.groups.consumer.heartbeat_answered(command, result, now_ms)
    return pass_answer(connection, command, result, frame, now_ms)


def observe_answer(
    groups: ObservedGroups,
    command: ConsumerHeartbeat,
    message: ConsumerGroupHeartbeatResponse,
    _version: int,
    now_ms: int,
) -> ConsumerHeartbeatResult:
    """Have an answer change the groups, and return what it contains."""
    result = _result(message)
    groups.consumer.heartbeat_answered(command, result, now_ms)
    return result


def _result(message: ConsumerGroupHeartbeatResponse) -> ConsumerHeartbeatResult:
    assignment = message.assignment
    return ConsumerHeartbeatResult(
        error=error_for(message.error_code),
        error_message=message.error_message,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=message.heartbeat_interval_ms,
        assignment=(
            None
            if assignment is None
            else id_partitions((each.topic_id, each.partitions) for each in assignment.topic_partitions)
        ),
    )


API = GroupApi(
    request_type=ConsumerGroupHeartbeatRequest,
    response_type=ConsumerGroupHeartbeatResponse,
    command_of=command_of,
    request=request,
    answer=answer,
    observe_answer=observe_answer,
)
