"""Hourly figures of one group, as parts that are added up: the rows from which `gold.py` makes `group_hours`.

A part covers what one run saw of an hour. Counts of two parts are added, extremes compared, and values at the hour's
end taken from the later part, so that an hour split between two runs equals one that is not. A step of time longer than
`JUMP_MS` is a clock correction and is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kohort.fleet.schema import HOUR_MS

JUMP_MS = 31 * 24 * HOUR_MS
MOST_OPEN = 64
"""How many hours of one group are stored before they are collected."""


@dataclass(slots=True)
class Snapshot:
    """Snapshot of a group: the values that an hour takes from its end."""

    kind: str = ""
    strategy: str | None = None
    members: int = 0
    static_members: int = 0
    partitions: int = 0
    protocols: frozenset[str] = frozenset()
    versions: frozenset[int] = frozenset()


@dataclass(slots=True)
class Hour:
    """One run's part of one hour of a group."""

    hour_ms: int
    members_min: int | None = None
    members_max: int | None = None
    snapshot: Snapshot | None = None
    """The last snapshot; None where the hour only has unowned time."""
    last_at_ms: int | None = None
    rebalances: int = 0
    rebalances_failed: int = 0
    rebalance_ms_total: int = 0
    rebalance_ms_max: int = 0
    unowned_partition_ms: int = 0
    partitions_moved: int = 0
    partitions_kept: int = 0
    commits: int = 0
    joined: int = 0
    left: int = 0
    evicted: int = 0
    protocols: set[str] = field(default_factory=set)
    versions: set[int] = field(default_factory=set)
    slowest_member: str | None = None
    slowest_ms: int = -1


class Hours:
    """The hours of one group that were not collected yet."""

    def __init__(self) -> None:
        self._open: dict[int, Hour] = {}

    def at(self, at_ms: int) -> Hour:
        """Return the hour of a moment."""
        hour_ms = at_ms - at_ms % HOUR_MS
        hour = self._open.get(hour_ms)
        if hour is None:
            hour = self._open[hour_ms] = Hour(hour_ms)
        return hour

    def note(self, at_ms: int, snapshot: Snapshot) -> None:
        """Add a snapshot of the group."""
        hour = self.at(at_ms)
        members = snapshot.members
        hour.members_min = members if hour.members_min is None else min(hour.members_min, members)
        hour.members_max = members if hour.members_max is None else max(hour.members_max, members)
        hour.protocols |= snapshot.protocols
        hour.versions |= snapshot.versions
        if hour.last_at_ms is None or at_ms >= hour.last_at_ms:
            hour.snapshot, hour.last_at_ms = snapshot, at_ms

    def add_unowned(self, from_ms: int, until_ms: int, partitions: int, snapshot: Snapshot | None) -> None:
        """Add unowned partition time to the hours that it spans, with a snapshot of the group."""
        if partitions <= 0 or not 0 < until_ms - from_ms <= JUMP_MS:
            return
        while from_ms < until_ms:
            end_ms = min(until_ms, from_ms - from_ms % HOUR_MS + HOUR_MS)
            self.at(from_ms).unowned_partition_ms += partitions * (end_ms - from_ms)
            if snapshot is not None:
                self.note(from_ms, snapshot)
            from_ms = end_ms

    def collect(self, *, all_of_them: bool) -> list[Hour]:
        """Remove and return hours in order: all, or all but the latest once there are many."""
        if not all_of_them and len(self._open) <= MOST_OPEN:
            return []
        current = set() if all_of_them else {max(self._open)}
        return [self._open.pop(hour_ms) for hour_ms in sorted(self._open.keys() - current)]
