"""When the lag of standby copies is worth a heartbeat of its own (KIP-848): it falls to a threshold, or grows on.

A lag in every heartbeat would mean a new assignment after every heartbeat. So a member sends lags when it joins, and
after that only with one of two reasons, once each time. All times are the member's, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.member.effects import Lags
from kohort.model.cause import HeartbeatReason
from kohort.model.ids import TopicPartition


@dataclass(eq=False)
class LagWatch:
    """The lags of one member's standby copies, as they were reported last."""

    acceptable_recovery_lag: int
    growth_ms: int
    _lags: dict[TopicPartition, int] = field(default_factory=dict)
    _growing_since_ms: dict[TopicPartition, int] = field(default_factory=dict)
    _reported_ms: int = 0

    @property
    def lags(self) -> Lags:
        """Every lag, by partition."""
        return tuple(sorted(self._lags.items()))

    def report(self, lags: Mapping[TopicPartition, int], now_ms: int) -> HeartbeatReason | None:
        """Take the lags of now, all of them; return why the coordinator should receive them at once, if it should."""
        is_caught_up = is_falling_behind = False
        growing_since_ms: dict[TopicPartition, int] = {}
        for partition, lag in lags.items():
            before = self._lags.get(partition)
            if lag <= self.acceptable_recovery_lag:
                is_caught_up |= before is None or before > self.acceptable_recovery_lag
            elif before is not None and lag > before:
                since_ms = self._growing_since_ms.get(partition, self._reported_ms)
                if now_ms - since_ms >= self.growth_ms:
                    is_falling_behind = True
                    since_ms = now_ms  # reported once; and again only if it lasts for as long once more
                growing_since_ms[partition] = since_ms
        self._lags = dict(lags)
        self._growing_since_ms = growing_since_ms
        self._reported_ms = now_ms
        if is_caught_up:
            return HeartbeatReason.STANDBY_CAUGHT_UP
        return HeartbeatReason.STANDBY_FALLING_BEHIND if is_falling_behind else None
