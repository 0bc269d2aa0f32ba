"""What is too much: every number that decides whether something is a finding, with its reason.

All of them are settings of `Thresholds`; a test with a generated fleet measures what the defaults find and miss.
"""

from __future__ import annotations

from dataclasses import dataclass

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The settings of the rules; times in milliseconds."""

    look_back_ms: int = 8 * DAY_MS
    """How far back from a log's end events count: a week and a day, so that each hour of the week is seen. What was
    earlier has been found by an earlier run, or nobody acts on it any more."""

    storm_rebalances_per_hour: int = 12
    """One every five minutes: a group that takes seconds to a minute for each works a good part of the hour less."""
    storm_ms: int = HOUR_MS
    """A deployment of many members rebalances as often, but is over sooner."""

    loop_stays: int = 4
    """So many stays of one poll interval, one after the other, are no chance."""
    loop_within_ms: int = 12 * HOUR_MS
    loop_stay_most: float = 2.0
    """A stay that ends by a poll timeout takes one poll interval from the last poll on, which comes soon after the
    join; up to so many intervals it is taken for one."""
    loop_absence_least_ms: int = 1_000
    """Less than that between the end of one member and the next of the same client is a process that died."""
    loop_absence_most: float = 3.0
    """Whoever missed a poll joins again at the next one: within so many intervals, or it was down."""

    flaps: int = 6
    """Take-overs of one instance id, far more than a deployment makes of it."""
    flaps_within_ms: int = HOUR_MS

    stuck_rebalance_ms: int = 30 * MINUTE_MS
    """Six times the five minutes that Kafka's members have by default to give partitions up."""
    stuck_silence_ms: int = 6 * HOUR_MS
    stuck_silence_factor: float = 2.0
    """A group is silent too long when it has been for so many times its longest silence before: nights, weekends."""
    stuck_hours_with_commits: int = 12
    """A group that committed in fewer hours has shown no habit."""

    zombie_returns: int = 3
    """Offsets of one partition that go back and forth so often within an hour; who resets offsets does it once."""

    idle_ms: int = HOUR_MS
    """Members without partitions for so long are no deployment that starts the new ones before it stops the old."""

    skew_ratio: float = 2.0
    """A member with so many times the average: half of the group's capacity, or more, is waiting for it."""
    skew_least: int = 2
    """And so many partitions more than the average."""
    skew_ms: int = HOUR_MS

    eager_rebalances_per_day: float = 4.0
    """A group that is deployed now and then gains little by another protocol, one that rebalances so often does."""

    retention_ms: int = 7 * DAY_MS
    """Kafka's offsets.retention.minutes by default; give the cluster's own."""
    expiry_warning_ms: int = DAY_MS
    """Somebody must have the time to act."""

    abandoned_ms: int = 2 * DAY_MS
    """A job that runs every day is back by then."""
    abandoned_factor: float = 3.0
    """And whoever has been away for long before may be again."""

    ready_version: int = 3
    """Kafka's consumers write version 3 of their metadata since 3.5; who writes less cannot speak the new protocol
    before it is upgraded, and KIP-848 asks a conversion for it."""

    evidence_rows: int = 12
    """Rows of evidence that a finding has at most: enough to see the pattern."""


DEFAULTS = Thresholds()
