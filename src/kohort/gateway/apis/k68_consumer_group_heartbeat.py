"""ConsumerGroupHeartbeat (KIP-848): its answer shows its member's epoch, and what it was granted."""

from __future__ import annotations

from kohort.gateway.apis.api import RequestOrigin
from kohort.gateway.apis.member_epochs import epoch_api
from kohort.group.commands import ConsumerHeartbeat
from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.errors import error_for
from kohort.model.id_partitions import id_partitions
from kohort.node.apis.k68_consumer_group_heartbeat import heartbeat_command
from kohort.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


def command_of(
    message: ConsumerGroupHeartbeatRequest, version: int, origin: RequestOrigin, client_id: str
) -> ConsumerHeartbeat:
    """Return what a heartbeat requests."""
    return heartbeat_command(message, version, client_id, origin.client_host, origin.software)


def result_of(message: ConsumerGroupHeartbeatResponse) -> ConsumerHeartbeatResult:
    """Return an answer's epoch, and what it grants."""
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


API = epoch_api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, command_of, result_of)
