"""ConsumerGroupHeartbeat (KIP-848): its answer shows its member's epoch, and what it was granted."""

from __future__ import annotations

from kohort.gateway.apis.api import RequestOrigin
from kohort.gateway.apis.member_epochs import epoch_api
from kohort.group.commands import ConsumerHeartbeat
from kohort.model.assignment import IdPartitions, id_partitions
from kohort.node.apis.k68_consumer_group_heartbeat import heartbeat_command
from kohort.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


def command_of(
    message: ConsumerGroupHeartbeatRequest, version: int, origin: RequestOrigin, client_id: str
) -> ConsumerHeartbeat:
    """Return what a heartbeat requests."""
    return heartbeat_command(message, version, client_id, origin.client_host, origin.software_name)


def assignment_of(message: ConsumerGroupHeartbeatResponse) -> IdPartitions | None:
    """Return what an answer grants."""
    granted = message.assignment
    if granted is None:
        return None
    return id_partitions((each.topic_id, each.partitions) for each in granted.topic_partitions)


API = epoch_api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, command_of, assignment_of)
