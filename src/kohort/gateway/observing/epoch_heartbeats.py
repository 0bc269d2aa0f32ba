"""Heartbeats with a member epoch: of consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071).

All have an epoch for each member, an interval in each answer, and are empty where there is nothing to send. Groups of
the last two are not observed: partitions of a share group have several owners, streams groups own tasks, and the events
of `kohort.group` have neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.gateway.policies.policies import GroupProtocol
from kohort.group.commands import ConsumerHeartbeat


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


EpochHeartbeat = ConsumerHeartbeat | UnobservedHeartbeat


def is_steady(heartbeat: EpochHeartbeat) -> bool:
    """Whether a heartbeat has no update: its member lives."""
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
