"""ConsumerGroupHeartbeat (KIP-848): its answer shows its member's epoch, and what it was granted."""

from __future__ import annotations

from kohort.gateway.apis.api import RequestOrigin
from kohort.gateway.apis.member_epochs import epoch_api, partitions_result
from kohort.group.commands import ConsumerHeartbeat
from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.assignment import id_partitions
from kohort.node.apis.k68_consumer_group_heartbeat import heartbeat_command
from kohort.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


def command_of(
    message: ConsumerGroupHeartbeatRequest, version: int, origin: RequestOrigin, client_id: str
) -> ConsumerHeartbeat:
    """Return what a heartbeat requests."""
    return heartbeat_command(message, version, client_id, origin.client_host, origin.software_name)


def result_of(message: ConsumerGroupHeartbeatResponse) -> ConsumerHeartbeatResult:
    """Return what an answer grants."""
    if message.assignment is None:
        return partitions_result(message)
    granted = message.assignment.topic_partitions
    return partitions_result(message, id_partitions((each.topic_id, each.partitions) for each in granted))


API = epoch_api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, command_of, result_of)
