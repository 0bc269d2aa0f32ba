"""When the lag of standby copies is worth a new assignment (KIP-848): it falls to a threshold, or grows on.

A lag in every heartbeat would mean a new assignment after every heartbeat. So a member of ours sends lags when it
joins, and after that only with one of two reasons, once each time. Kafka Streams sends them at an interval, and the
coordinator finds the reasons. All times are in milliseconds, by the clock of who watches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kohort.model.cause import HeartbeatReason

Copied = TypeVar("Copied", bound=tuple[str, int])
"""What is copied: a partition, or a task."""


@dataclass(eq=False)
class LagWatch(Generic[Copied]):
    """The lags of one member's standby copies, as they were reported last. `falling_behind` are those that grow on."""

    acceptable_recovery_lag: int
    growth_ms: int
    falling_behind: frozenset[Copied] = frozenset()
    _lags: dict[Copied, int] = field(default_factory=dict)
    _growing_since_ms: dict[Copied, int] = field(default_factory=dict)
    _reported_ms: int = 0

    @property
    def lags(self) -> tuple[tuple[Copied, int], ...]:
        """Every lag, by partition."""
        return tuple(sorted(self._lags.items()))

    def report(self, lags: Mapping[Copied, int], now_ms: int) -> HeartbeatReason | None:
        """Take the lags of now, all of them; return why they call for a new assignment, if they do."""
        is_caught_up = False
        falling_behind: set[Copied] = set()
        growing_since_ms: dict[Copied, int] = {}
        for partition, lag in lags.items():
            before = self._lags.get(partition)
            if lag <= self.acceptable_recovery_lag:
                is_caught_up |= before is None or before > self.acceptable_recovery_lag
            elif before is not None and lag > before:
                since_ms = self._growing_since_ms.get(partition, self._reported_ms)
                if now_ms - since_ms >= self.growth_ms:
                    falling_behind.add(partition)
                    since_ms = now_ms  # reported once; and again only if it lasts for as long once more
                growing_since_ms[partition] = since_ms
        self._lags = dict(lags)
        self._growing_since_ms = growing_since_ms
        self._reported_ms = now_ms
        self.falling_behind = frozenset(falling_behind)
        if is_caught_up:
            return HeartbeatReason.STANDBY_CAUGHT_UP
        return HeartbeatReason.STANDBY_FALLING_BEHIND if falling_behind else None
