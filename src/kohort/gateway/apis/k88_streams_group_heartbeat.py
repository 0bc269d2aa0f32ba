"""StreamsGroupHeartbeat (KIP-1071): its answer shows its member's epoch, and the tasks that it was granted."""

from __future__ import annotations

from kohort.gateway.apis.api import RequestOrigin
from kohort.gateway.apis.member_epochs import epoch_api
from kohort.group.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult
from kohort.group.streams.topology import StatusCode, StreamsStatus
from kohort.model.errors import error_for
from kohort.model.streams_tasks import TasksByRole
from kohort.node.apis.k88_89_93_streams_groups import heartbeat_command, owned_tasks
from kohort.wire.messages import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse


def command_of(
    message: StreamsGroupHeartbeatRequest, version: int, origin: RequestOrigin, client_id: str
) -> StreamsHeartbeat:
    """Return what a heartbeat requests."""
    return heartbeat_command(message, version, client_id, origin.client_host, origin.software_name)


def result_of(message: StreamsGroupHeartbeatResponse) -> StreamsHeartbeatResult:
    """Return what an answer grants."""
    granted = (message.active_tasks, message.standby_tasks, message.warmup_tasks)
    return StreamsHeartbeatResult(
        error=error_for(message.error_code),
        error_message=message.error_message,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=message.heartbeat_interval_ms,
        acceptable_recovery_lag=message.acceptable_recovery_lag,
        task_offset_interval_ms=message.task_offset_interval_ms,
        statuses=tuple(
            StreamsStatus(StatusCode(each.status_code), each.status_detail)
            for each in message.status or ()
            if each.status_code in tuple(StatusCode)
        ),
        tasks=None if all(each is None for each in granted) else TasksByRole(*map(owned_tasks, granted)),
    )


API = epoch_api(StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, command_of, result_of)
