"""Thresholds of the rules: every number that decides whether something is a finding, with its reason.

All of them are settings of `Thresholds`; a test with a generated fleet measures precision and recall of the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.model.setting import DAY_MS, HOUR_MS, LONG, MINUTE_MS, check_fields, setting


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The settings of the rules. Raises TypeError, ValueError for a value of another type or below 0."""

    # fmt: off
    look_back_ms: int = setting(8 * DAY_MS, "How far back from a log's end events count: a week and a day, so that "
        "each hour of the week is seen. Earlier faults were found by earlier runs.", 0, kind=LONG)
    storm_rebalances_per_hour: int = setting(12, "One every five minutes: at seconds to a minute each, they take a "
        "large part of the hour.", 0)
    storm_ms: int = setting(HOUR_MS, "A deployment of many members rebalances as often, but is over "
        "sooner.", 0, kind=LONG)
    loop_stays: int = setting(4, "So many consecutive stays of one poll interval are no coincidence.", 0)
    loop_within_ms: int = setting(12 * HOUR_MS, "The time in which those stays lie.", 0, kind=LONG)
    loop_stay_most: float = setting(2.0, "A stay that ends by a poll timeout lasts one poll interval from the last "
        "poll on, which follows the join soon; stays of up to so many intervals count.", 0)
    loop_absence_least_ms: int = setting(1_000, "Less than that between the end of one member and the next of the same "
        "client is a process that died.", 0, kind=LONG)
    loop_absence_most: float = setting(3.0, "A member that missed a poll rejoins at its next one, within so many "
        "intervals; otherwise it was down.", 0)
    flaps: int = setting(6, "Take-overs of one instance id, far more than a deployment makes of it.", 0)
    flaps_within_ms: int = setting(HOUR_MS, "The time in which they lie.", 0, kind=LONG)
    stuck_rebalance_ms: int = setting(30 * MINUTE_MS, "Six times the default rebalance timeout of five "
        "minutes.", 0, kind=LONG)
    stuck_silence_ms: int = setting(6 * HOUR_MS, "No commits for so long; a group that works by day is back sooner.", 0,
        kind=LONG)
    stuck_silence_factor: float = setting(2.0, "The time without commits must exceed the longest earlier one, such as "
        "a weekend, by this factor.", 0)
    stuck_hours_with_commits: int = setting(12, "A group that committed in fewer hours has no usual pattern.", 0)
    zombie_returns: int = setting(3, "How often offsets of one partition go back within an hour while the group has "
        "members.", 0)
    idle_ms: int = setting(HOUR_MS, "A deployment that starts new members before it stops the old ones is "
        "shorter.", 0, kind=LONG)
    skew_ratio: float = setting(2.0, "A member with so many times the average: half of the group's capacity, or more, "
        "is unused.", 0)
    skew_least: int = setting(2, "And so many partitions more than the average.", 0)
    skew_ms: int = setting(HOUR_MS, "How long that lasts.", 0, kind=LONG)
    eager_rebalances_per_day: float = setting(4.0, "A group that only rebalances for deployments gains little from "
        "another protocol.", 0)
    retention_ms: int = setting(7 * DAY_MS, "Kafka's offsets.retention.minutes by default; give the cluster's "
        "own.", 0, kind=LONG)
    expiry_warning_ms: int = setting(DAY_MS, "The time that operators have to act.", 0, kind=LONG)
    abandoned_ms: int = setting(2 * DAY_MS, "A job that runs every day is back by then.", 0, kind=LONG)
    abandoned_factor: float = setting(3.0, "A group that has been without members for long before may be so again.", 0)
    ready_version: int = setting(3, "Kafka's consumers write version 3 of their metadata since 3.5. Older clients do "
        "not support the new protocol, and KIP-848 requires the version for a conversion.", 0)
    evidence_rows: int = setting(12, "Most rows of evidence of a finding: enough to see the pattern.", 0)
    # fmt: on

    def __post_init__(self) -> None:
        check_fields(self)


DEFAULTS = Thresholds()
