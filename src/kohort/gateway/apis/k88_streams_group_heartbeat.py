"""StreamsGroupHeartbeat (KIP-1071): parked, and not observed, since streams groups own tasks and no partitions."""

from __future__ import annotations

from kohort.gateway.apis.api import RequestOrigin
from kohort.gateway.apis.member_epochs import epoch_api
from kohort.gateway.observing.epoch_heartbeats import UnobservedHeartbeat
from kohort.gateway.policies.policies import GroupProtocol
from kohort.model.assignment import IdPartitions
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


def assignment_of(message: StreamsGroupHeartbeatResponse) -> IdPartitions | None:
    """An assignment of tasks is to be acknowledged, whichever they are."""
    is_same = message.active_tasks is None and message.standby_tasks is None and message.warmup_tasks is None
    return None if is_same else ()


API = epoch_api(StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, command_of, assignment_of)
