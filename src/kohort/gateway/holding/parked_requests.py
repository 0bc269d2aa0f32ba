"""Heartbeats with a member epoch, parked until there may be an update of their group: KIP-848, KIP-932 and KIP-1071.

The request is parked, not its answer: what the coordinator answers must be of now. A heartbeat that brings nothing is
parked for as long as `kohort.parking` decides, and its sender gets an interval that fits; meanwhile the session is not
renewed, so none is parked longer than a small part of the session. It is forwarded when another member of the group
joins, leaves, changes what it wants or revokes partitions, and when an answer to any member carries a newer epoch.

A coordinator may compute its target some time after the group's epoch (`group.consumer.assignment.interval.ms`): for a
while after each change heartbeats are parked shortly.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from struct import Struct

from kohort.gateway.observing.epoch_heartbeats import EpochHeartbeat, EpochResult, is_steady
from kohort.gateway.policies.policies import GroupProtocol
from kohort.gateway.relay.relay import Exchange
from kohort.group.events import ConsumerMemberDeleted, Event
from kohort.group.streams.events import StreamsMemberDeleted
from kohort.node.timers import Timers
from kohort.parking.consumer_heartbeats import ConsumerParking
from kohort.parking.limits import (
    ASSUMED_SESSION_MS,
    GATEWAY_PARK_MS,
    GATEWAY_SETTLING_MS,
    GATEWAY_STABLE_PARK_MS,
    RELEASE_MS,
    SENDER_FORGOTTEN_MS,
)
from kohort.parking.parked_heartbeat import ParkedHeartbeat
from kohort.wire.codec import Buffer
from kohort.wire.primitives import read_varint, skip_tags

_INT = Struct(">i")


@dataclass(slots=True)
class _EpochGroup:
    """What is known of one group."""

    epoch: int = 0
    """The highest epoch of any member."""
    changed_ms: int = -GATEWAY_SETTLING_MS
    parked: dict[str, ParkedHeartbeat[EpochHeartbeat, None]] = field(default_factory=dict)
    sent_ms: dict[str, int] = field(default_factory=dict)
    """By member id, when a heartbeat of it went to the coordinator."""


class ParkedRequests:
    """The parked heartbeats of all groups of one protocol. `updates` counts those that are forwarded for an update."""

    def __init__(self, protocol: GroupProtocol, timers: Timers, updates: Counter[GroupProtocol]) -> None:
        self._protocol = protocol
        self._timers = timers
        self._updates = updates
        self._groups: dict[str, _EpochGroup] = {}
        self._parking: ConsumerParking[EpochHeartbeat, None] = ConsumerParking(
            timers, self._end_wait, GATEWAY_PARK_MS, GATEWAY_STABLE_PARK_MS, settling_ms=0
        )

    def __len__(self) -> int:
        return len(self._parking)

    def park(
        self, exchange: Exchange, heartbeat: EpochHeartbeat, now_ms: int
    ) -> ParkedHeartbeat[EpochHeartbeat, None] | None:
        """Park a heartbeat; None where it is to be forwarded now."""
        group = self._groups.get(heartbeat.group_id)
        if group is None or not is_steady(heartbeat):
            return None
        if group.sent_ms.get(heartbeat.member_id, 0) <= group.changed_ms + RELEASE_MS:
            return None  # it has not asked since

        def pass_on(_: None) -> None:
            exchange.pass_on()

        parked = self._parking.park(heartbeat, pass_on, ASSUMED_SESSION_MS, now_ms)
        if parked is not None:
            group.parked[heartbeat.member_id] = parked
        return parked

    def sent(self, heartbeat: EpochHeartbeat, now_ms: int) -> None:
        """A heartbeat goes to the coordinator."""
        self._groups.setdefault(heartbeat.group_id, _EpochGroup()).sent_ms[heartbeat.member_id] = now_ms
        if self._timers.deadline_ms(self) is None:
            self._timers.arm(self, now_ms + SENDER_FORGOTTEN_MS, self._forget_idle)
        self._parking.passed_on(heartbeat, now_ms)
        if not is_steady(heartbeat):
            self._changed(heartbeat.group_id, now_ms)

    def answered(self, heartbeat: EpochHeartbeat, result: EpochResult, frame: Buffer, now_ms: int) -> Buffer:
        """Take the answer to a heartbeat; return it with the interval for its member."""
        if result.error or result.member_epoch < 0:
            self.removed(heartbeat.group_id, heartbeat.member_id, now_ms)
            return frame
        group = self._groups.setdefault(heartbeat.group_id, _EpochGroup())
        if result.member_epoch > group.epoch:
            group.epoch = result.member_epoch
            self._changed(heartbeat.group_id, now_ms)
        is_update = result.assignment is not None or result.member_epoch != heartbeat.member_epoch
        answer = replace(
            result,
            member_id=result.member_id or heartbeat.member_id,
            is_quiet=not is_update,
            is_settling=now_ms - group.changed_ms < GATEWAY_SETTLING_MS,
        )
        self._parking.answering(heartbeat.group_id, answer, heartbeat.margin_ms, now_ms)
        if answer.heartbeat_interval_ms == result.heartbeat_interval_ms:
            return frame
        return with_interval(frame, answer.heartbeat_interval_ms)

    def sent_elsewhere(self, heartbeat: EpochHeartbeat, now_ms: int) -> None:
        """A heartbeat with an update went to the coordinator through another instance."""
        if heartbeat.group_id in self._groups:
            self._changed(heartbeat.group_id, now_ms)

    def answered_elsewhere(self, heartbeat: EpochHeartbeat, result: EpochResult, now_ms: int) -> None:
        """A heartbeat was answered through another instance: a newer epoch counts here too."""
        group = self._groups.get(heartbeat.group_id)
        if group is not None and not result.error and result.member_epoch > group.epoch:
            group.epoch = result.member_epoch
            self._changed(heartbeat.group_id, now_ms)

    def event_applied(self, event: Event, now_ms: int) -> None:
        """An event has changed a group: its member may be out."""
        if isinstance(event, ConsumerMemberDeleted | StreamsMemberDeleted):
            self.removed(event.group_id, event.member_id, now_ms)

    def removed(self, group_id: str, member_id: str, now_ms: int) -> None:
        """A member is out of its group: a heartbeat of it that waits is sent on, for its coordinator to refuse."""
        parked = self._parking.forget(group_id, member_id)
        if parked is not None:
            parked.release(now_ms)
        group = self._groups.get(group_id)
        if group is not None:
            group.sent_ms.pop(member_id, None)
            group.parked.pop(member_id, None)
            if not group.sent_ms:
                del self._groups[group_id]

    def _forget_idle(self, now_ms: int) -> None:
        """Forget members that have ended without a LeaveGroup."""
        for group_id, group in list(self._groups.items()):
            for member_id, sent_ms in list(group.sent_ms.items()):
                if now_ms - sent_ms >= SENDER_FORGOTTEN_MS:
                    self.removed(group_id, member_id, now_ms)
        if self._groups:
            self._timers.arm(self, now_ms + SENDER_FORGOTTEN_MS, self._forget_idle)

    def _changed(self, group_id: str, now_ms: int) -> None:
        group = self._groups[group_id]
        group.changed_ms = now_ms
        if self._timers.deadline_ms((self, group_id)) is None:
            self._timers.arm((self, group_id), now_ms + RELEASE_MS, lambda at_ms: self._release(group, at_ms))

    def _release(self, group: _EpochGroup, now_ms: int) -> None:
        parked, group.parked = group.parked, {}
        for each in parked.values():
            self._updates[self._protocol] += each.is_parked
            each.release(now_ms)

    def _end_wait(self, parked: ParkedHeartbeat[EpochHeartbeat, None], now_ms: int) -> None:
        heartbeat = parked.heartbeat
        group = self._groups.setdefault(heartbeat.group_id, _EpochGroup())
        group.sent_ms[heartbeat.member_id] = now_ms
        if group.parked.get(heartbeat.member_id) is parked:
            del group.parked[heartbeat.member_id]
        parked.answer(None)


def with_interval(frame: Buffer, interval_ms: int) -> bytes:
    """Return the answer to a heartbeat with another interval; everything else is as it was, unknown fields too."""
    changed = bytearray(frame)
    tags = 8  # behind length and correlation id
    position = skip_tags(changed, tags + 1, changed[tags])
    position += 4 + 2  # throttle time and error code
    for _ in ("error message", "member id"):
        size, position = read_varint(changed, position)
        position += max(size - 1, 0)
    _INT.pack_into(changed, position + 4, interval_ms)  # behind the member epoch
    return bytes(changed)
