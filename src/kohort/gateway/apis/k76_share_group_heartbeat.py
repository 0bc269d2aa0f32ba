"""ShareGroupHeartbeat (KIP-932): parked, and not observed, since partitions of a share group have several owners."""

from __future__ import annotations

from kohort.gateway.apis.api import RequestOrigin
from kohort.gateway.apis.member_epochs import epoch_api, partitions_result
from kohort.gateway.observing.epoch_heartbeats import UnobservedHeartbeat
from kohort.gateway.policies.policies import GroupProtocol
from kohort.wire.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def command_of(
    message: ShareGroupHeartbeatRequest, _version: int, origin: RequestOrigin, _client_id: str
) -> UnobservedHeartbeat:
    """Return what parking needs of a share member's heartbeat."""
    is_steady = message.member_epoch > 0 and message.subscribed_topic_names is None
    return UnobservedHeartbeat(
        GroupProtocol.SHARE, message.group_id, message.member_id, message.member_epoch, is_steady, origin.margin_ms
    )


# No member of a share group acknowledges what it is assigned.
API = epoch_api(ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, command_of, partitions_result)
