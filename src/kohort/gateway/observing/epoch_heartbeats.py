"""Heartbeats with a member epoch: of consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071).

All have an epoch for each member, an interval in each answer, and are empty where there is nothing to send. Share
groups are not observed: their partitions have several owners, which the events of `kohort.group` do not have.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.gateway.policies.policies import GroupProtocol
from kohort.group.commands import ConsumerHeartbeat
from kohort.group.results import ConsumerHeartbeatResult
from kohort.group.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult


@dataclass(frozen=True, slots=True)
class UnobservedHeartbeat:
    """A heartbeat of a member whose group is not observed. `margin_ms` and `owned` are as in `ConsumerHeartbeat`."""

    protocol: GroupProtocol
    group_id: str
    member_id: str
    member_epoch: int
    is_steady: bool
    """Whether it has no update: its member lives."""
    margin_ms: int
    owned: object = None
    """What acknowledges an assignment, None where it is not sent."""


EpochHeartbeat = ConsumerHeartbeat | StreamsHeartbeat | UnobservedHeartbeat

EpochResult = ConsumerHeartbeatResult | StreamsHeartbeatResult
"""The answer to one; that of a share group is as one of a consumer group."""


def is_steady(heartbeat: EpochHeartbeat) -> bool:
    """Whether a heartbeat has no update: its member lives."""
    if isinstance(heartbeat, UnobservedHeartbeat):
        return heartbeat.is_steady
    if heartbeat.member_epoch <= 0 or heartbeat.owned is not None or heartbeat.rebalance_timeout_ms != -1:
        return False
    if isinstance(heartbeat, StreamsHeartbeat):
        changes = (
            heartbeat.topology,
            heartbeat.process_id,
            heartbeat.endpoint,
            heartbeat.client_tags,
            heartbeat.offsets,
            heartbeat.end_offsets,
        )
        return not heartbeat.shuts_down and all(each is None for each in changes)
    return (
        heartbeat.subscribed_topic_names is None
        and heartbeat.subscribed_topic_regex is None
        and heartbeat.server_assignor is None
    )
