"""Heartbeats of share groups (KIP-932) and streams groups (KIP-1071), as far as holding them needs it.

Both have the shape of KIP-848: an epoch for each member, an interval in each answer, and a heartbeat that is empty
where there is nothing to send. Their groups are not observed: partitions of a share group have several owners, streams
groups own tasks, and the events of `kohort.group` have neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.gateway.policies.policies import GroupProtocol
from kohort.group.commands import ConsumerHeartbeat
from kohort.group.results import ConsumerHeartbeatResult
from kohort.model.errors import error_for
from kohort.wire.messages import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


@dataclass(frozen=True, slots=True)
class UnobservedHeartbeat:
    """A heartbeat of a member whose group is not observed. `margin_ms` and `owned` are as in `ConsumerHeartbeat`."""

    protocol: GroupProtocol
    group_id: str
    member_id: str
    member_epoch: int
    is_steady: bool
    """Whether it says nothing but that its member lives."""
    margin_ms: int
    owned: object = None
    """What acknowledges an assignment, None where it is not sent."""


EpochHeartbeat = ConsumerHeartbeat | UnobservedHeartbeat


def is_steady(heartbeat: EpochHeartbeat) -> bool:
    """Whether a heartbeat says nothing but that its member lives."""
    if isinstance(heartbeat, UnobservedHeartbeat):
        return heartbeat.is_steady
    return (
        heartbeat.member_epoch > 0
        and heartbeat.owned is None
        and heartbeat.subscribed_topic_names is None
        and heartbeat.subscribed_topic_regex is None
        and heartbeat.server_assignor is None
        and heartbeat.rebalance_timeout_ms == -1
    )


def share_heartbeat(message: ShareGroupHeartbeatRequest, margin_ms: int) -> UnobservedHeartbeat:
    """Return what holding needs of a share member's heartbeat."""
    is_steady = message.member_epoch > 0 and message.subscribed_topic_names is None
    return UnobservedHeartbeat(
        GroupProtocol.SHARE, message.group_id, message.member_id, message.member_epoch, is_steady, margin_ms
    )


def streams_heartbeat(message: StreamsGroupHeartbeatRequest, margin_ms: int) -> UnobservedHeartbeat:
    """Return what holding needs of a streams member's heartbeat."""
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
    return UnobservedHeartbeat(
        GroupProtocol.STREAMS, message.group_id, message.member_id, message.member_epoch, is_steady, margin_ms, owned
    )


def share_result(message: ShareGroupHeartbeatResponse) -> ConsumerHeartbeatResult:
    """Return an answer as holding takes it: no member of a share group acknowledges what it is assigned."""
    return ConsumerHeartbeatResult(
        error=error_for(message.error_code),
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=message.heartbeat_interval_ms,
    )


def streams_result(message: StreamsGroupHeartbeatResponse) -> ConsumerHeartbeatResult:
    """Return an answer as holding takes it: an assignment of tasks is to be acknowledged, whichever they are."""
    is_same = message.active_tasks is None and message.standby_tasks is None and message.warmup_tasks is None
    return ConsumerHeartbeatResult(
        error=error_for(message.error_code),
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=message.heartbeat_interval_ms,
        assignment=None if is_same else (),
    )
