"""Thresholds of the rules: every number that decides whether something is a finding, with its reason.

All of them are settings of `Thresholds`; a test with a generated fleet measures precision and recall of the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.fleet.schema import DAY_MS, HOUR_MS

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The settings of the rules; times in milliseconds."""

    look_back_ms: int = 8 * DAY_MS
    """How far back from a log's end events count: a week and a day, so that each hour of the week is seen. Earlier
    faults were found by earlier runs."""

    storm_rebalances_per_hour: int = 12
    """One every five minutes: at seconds to a minute each, they take a large part of the hour."""
    storm_ms: int = HOUR_MS
    """A deployment of many members rebalances as often, but is over sooner."""

    loop_stays: int = 4
    """So many consecutive stays of one poll interval are no coincidence."""
    loop_within_ms: int = 12 * HOUR_MS
    loop_stay_most: float = 2.0
    """A stay that ends by a poll timeout lasts one poll interval from the last poll on, which follows the join soon;
    stays of up to so many intervals count."""
    loop_absence_least_ms: int = 1_000
    """Less than that between the end of one member and the next of the same client is a process that died."""
    loop_absence_most: float = 3.0
    """A member that missed a poll rejoins at its next one, within so many intervals; otherwise it was down."""

    flaps: int = 6
    """Take-overs of one instance id, far more than a deployment makes of it."""
    flaps_within_ms: int = HOUR_MS

    stuck_rebalance_ms: int = 30 * MINUTE_MS
    """Six times the default rebalance timeout of five minutes."""
    stuck_silence_ms: int = 6 * HOUR_MS
    stuck_silence_factor: float = 2.0
    """The time without commits must exceed the longest earlier one, such as a weekend, by this factor."""
    stuck_hours_with_commits: int = 12
    """A group that committed in fewer hours has no usual pattern."""

    zombie_returns: int = 3
    """How often offsets of one partition go back within an hour while the group has members."""

    idle_ms: int = HOUR_MS
    """A deployment that starts new members before it stops the old ones is shorter."""

    skew_ratio: float = 2.0
    """A member with so many times the average: half of the group's capacity, or more, is unused."""
    skew_least: int = 2
    """And so many partitions more than the average."""
    skew_ms: int = HOUR_MS

    eager_rebalances_per_day: float = 4.0
    """A group that only rebalances for deployments gains little from another protocol."""

    retention_ms: int = 7 * DAY_MS
    """Kafka's offsets.retention.minutes by default; give the cluster's own."""
    expiry_warning_ms: int = DAY_MS
    """The time that operators have to act."""

    abandoned_ms: int = 2 * DAY_MS
    """A job that runs every day is back by then."""
    abandoned_factor: float = 3.0
    """A group that has been without members for long before may be so again."""

    ready_version: int = 3
    """Kafka's consumers write version 3 of their metadata since 3.5. Older clients do not support the new protocol, and
    KIP-848 requires the version for a conversion."""

    evidence_rows: int = 12
    """Most rows of evidence of a finding: enough to see the pattern."""


DEFAULTS = Thresholds()
