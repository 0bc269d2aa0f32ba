"""ShareGroupHeartbeat (KIP-932): parked, and not observed, since partitions of a share group have several owners."""

from __future__ import annotations

from kohort.gateway.apis.api import RequestOrigin
from kohort.gateway.apis.member_epochs import epoch_api
from kohort.gateway.observing.epoch_heartbeats import UnobservedHeartbeat
from kohort.gateway.policies.policies import GroupProtocol
from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.errors import error_for
from kohort.wire.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def command_of(
    message: ShareGroupHeartbeatRequest, _version: int, origin: RequestOrigin, _client_id: str
) -> UnobservedHeartbeat:
    """Return what parking needs of a share member's heartbeat."""
    is_steady = message.member_epoch > 0 and message.subscribed_topic_names is None
    return UnobservedHeartbeat(
        GroupProtocol.SHARE, message.group_id, message.member_id, message.member_epoch, is_steady, origin.margin_ms
    )


def result_of(message: ShareGroupHeartbeatResponse) -> ConsumerHeartbeatResult:
    """Return an answer's epoch: no member of a share group acknowledges what it is assigned."""
    return ConsumerHeartbeatResult(
        error=error_for(message.error_code),
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=message.heartbeat_interval_ms,
    )


API = epoch_api(ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, command_of, result_of)
