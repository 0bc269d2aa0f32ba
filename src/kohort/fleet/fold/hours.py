"""What happened to one group in each hour, as parts that are added up: the rows from which `gold.py` makes its hours.

A part covers what one run saw of an hour. Counts of two parts add up, extremes are compared, and what is true at the
hour's end is taken from the later one; so an hour that is cut in two by the end of a run comes out as one that is not.
A step of time longer than `JUMP_MS` is a clock that was set: nothing is counted for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HOUR_MS = 3_600_000
JUMP_MS = 31 * 24 * HOUR_MS
MOST_OPEN = 64
"""How many hours of one group are kept before they are handed out."""


@dataclass(slots=True)
class Standing:
    """What a group is at one moment: that which an hour has at its end."""

    kind: str = ""
    strategy: str | None = None
    members: int = 0
    static_members: int = 0
    partitions: int = 0
    protocols: frozenset[str] = frozenset()
    versions: frozenset[int] = frozenset()


@dataclass(slots=True)
class Hour:
    """What one run saw of one hour of a group."""

    hour_ms: int
    members_min: int | None = None
    members_max: int | None = None
    standing: Standing | None = None
    """What the group was last; None where nothing but time that passed without an owner is known of the hour."""
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
    """The hours of one group that have not been handed out."""

    def __init__(self) -> None:
        self._open: dict[int, Hour] = {}

    def at(self, at_ms: int) -> Hour:
        """Return the hour of a moment."""
        hour_ms = at_ms - at_ms % HOUR_MS
        hour = self._open.get(hour_ms)
        if hour is None:
            hour = self._open[hour_ms] = Hour(hour_ms)
        return hour

    def note(self, at_ms: int, standing: Standing) -> None:
        """Take what the group is at a moment."""
        hour = self.at(at_ms)
        members = standing.members
        hour.members_min = members if hour.members_min is None else min(hour.members_min, members)
        hour.members_max = members if hour.members_max is None else max(hour.members_max, members)
        hour.protocols |= standing.protocols
        hour.versions |= standing.versions
        if hour.last_at_ms is None or at_ms >= hour.last_at_ms:
            hour.standing, hour.last_at_ms = standing, at_ms

    def add_unowned(self, from_ms: int, until_ms: int, partitions: int, standing: Standing | None) -> None:
        """Add the time for which partitions had no owner to the hours in which it passed, with what the group was."""
        if partitions <= 0 or not 0 < until_ms - from_ms <= JUMP_MS:
            return
        while from_ms < until_ms:
            end_ms = min(until_ms, from_ms - from_ms % HOUR_MS + HOUR_MS)
            self.at(from_ms).unowned_partition_ms += partitions * (end_ms - from_ms)
            if standing is not None:
                self.note(from_ms, standing)
            from_ms = end_ms

    def collect(self, *, all_of_them: bool) -> list[Hour]:
        """Return hours to hand out, in order: all, or all but the latest once there are many."""
        if not all_of_them and len(self._open) <= MOST_OPEN:
            return []
        keep = set() if all_of_them else {max(self._open)}
        return [self._open.pop(hour_ms) for hour_ms in sorted(self._open.keys() - keep)]
