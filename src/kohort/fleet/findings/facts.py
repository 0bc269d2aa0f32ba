"""Input and output of rules: the facts of one group, thresholds, and findings with their evidence.

Facts are plain values made of rows, in a Spark task or in a test. Lists are in the order of time. Every number that
decides whether something is a finding is a setting of `Thresholds`, with its reason; a test with a generated fleet
measures precision and recall of the defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from kohort.drawing.display_text import counted
from kohort.fleet.fold.folded_group import LOG_BEGINS, Violations
from kohort.fleet.schema import Evidence
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


class Finding(NamedTuple):
    """One finding, as the table has it."""

    source: str
    group: str
    finding: str
    severity: str
    sentence: str
    from_ms: int
    until_ms: int
    value: float | None
    evidence: list[Evidence]
    advice: str

    def row(self) -> dict[str, Any]:
        """Return it as a row of the table."""
        return self._asdict() | {"evidence": [each._asdict() for each in self.evidence]}


class HourOf(NamedTuple):
    """One hour of the group."""

    hour_ms: int
    rebalances: int
    commits: int
    unowned_partition_seconds: float
    partitions_moved: int
    partitions_kept: int


class EventOf(NamedTuple):
    """One event of the group."""

    partition: int
    offset: int
    at_ms: int
    event: str
    epoch: int | None
    member: str | None
    instance: str | None
    client_id: str | None
    host: str | None
    cause: str | None
    detail: str | None

    @property
    def details(self) -> Mapping[str, Any]:
        """Return the event's further fields."""
        found: Mapping[str, Any] = json.loads(self.detail) if self.detail else {}
        return found

    def evidence(self) -> Evidence:
        """Return the event as evidence."""
        who = self.instance or self.client_id or self.member
        what = self.event if self.epoch is None else f"{self.event} {self.epoch}"
        what = f"{what}: {who}" if who else what
        return Evidence(self.partition, self.offset, self.at_ms, what)


class CommitOf(NamedTuple):
    """A commit with an offset below the previous one."""

    partition: int
    offset: int
    at_ms: int
    topic: str
    topic_partition: int
    committed_offset: int
    previous: int
    producer_id: int | None


@dataclass(frozen=True)
class Facts:
    """One group. `now_ms` is the end of its log.

    More than 20 attributes: each is a fact that some rule reads.
    """

    source: str
    group: str
    now_ms: int
    kind: str = ""
    state: str = ""
    members: int = 0
    partitions: int = 0
    topics: Sequence[str] = ()
    strategy: str | None = None
    protocol: str | None = None
    embedded_versions: Sequence[int] = ()
    has_user_data: bool = False
    largest_share: int = 0
    smallest_share: int = 0
    idle_members: int = 0
    lag: int | None = None
    """Its lag, where the end offsets of topics are known."""
    last_commit_ms: int | None = None
    next_expiry_ms: int | None = None
    emptied_ms: int | None = None
    running_since_ms: int | None = None
    first_seen_ms: int = 0
    last_seen_ms: int = 0
    committed_partitions: int = 0
    partition: int = 0
    last_offset: int = 0
    hours: Sequence[HourOf] = ()
    events: Sequence[EventOf] = ()
    returns: Sequence[CommitOf] = ()
    """Commits with an offset below the previous one of their partition."""
    last_record: str | None = None
    """The last record of a classic group, as JSON."""
    subscriptions: Sequence[str] = ()
    """Distinct subscriptions of the members of a consumer group, as text."""
    violations: Violations = field(default_factory=Violations)
    """The records at which some version of Kafka fails to load its log."""

    @cached_property
    def stored(self) -> Mapping[str, Any]:
        """The last record of a classic group."""
        found: Mapping[str, Any] = json.loads(self.last_record) if self.last_record else {}
        return found

    @property
    def hours_with_commits(self) -> list[HourOf]:
        """The hours in which the group committed."""
        return [hour for hour in self.hours if hour.commits]

    @property
    def longest_silence_ms(self) -> int:
        """The longest time without commits between hours that have some, up to an hour too long."""
        hours = self.hours_with_commits
        return max((later.hour_ms - first.hour_ms for first, later in pairwise(hours)), default=HOUR_MS)

    def of(self, *events: str) -> list[EventOf]:
        """Return the events of some names."""
        return [each for each in self.events if each.event in events]

    def had_members(self, at_ms: int, offset: int) -> bool:
        """Whether the group had members at a time, and at an offset of its log."""
        had = None
        for event in self.of("joined", "rejoined", "emptied"):
            if (event.at_ms, event.offset) > (at_ms, offset):
                # The log of a group with which it begins has no join before.
                return event.event == "emptied" or event.cause == LOG_BEGINS if had is None else had
            had = event.event != "emptied"
        return self.members > 0 if had is None else had

    def state_evidence(self, what: str) -> Evidence:
        """Return the group's last record as evidence of its state."""
        return Evidence(self.partition, self.last_offset, self.last_seen_ms, what)

    def finding(
        self,
        name: str,
        severity: str,
        sentence: str,
        advice: str,
        *,
        since_ms: int,
        value: float | None = None,
        evidence: Iterable[Evidence],
    ) -> Finding:
        """Return a finding about the group, until now; its last record proves what has no other evidence."""
        proof = list(evidence) or [self.state_evidence("the group's last record")]
        return Finding(self.source, self.group, name, severity, sentence, since_ms, self.now_ms, value, proof, advice)


def picked(evidence: Sequence[Evidence], most: int) -> list[Evidence]:
    """Return at most `most` rows: the first and the last ones, where there are more."""
    if len(evidence) <= most:
        return list(evidence)
    half = most // 2
    return [*evidence[: most - half], *evidence[len(evidence) - half :]]


def are_close(times_ms: Sequence[int], count: int, within_ms: int) -> bool:
    """Whether some `count` consecutive times lie within a span."""
    return any(last - first <= within_ms for first, last in zip(times_ms, times_ms[count - 1 :], strict=False))


def duration_text(span_ms: float) -> str:
    """Return a duration in words."""
    minutes = round(span_ms / 60_000)
    for size, word in ((1440, "day"), (60, "hour")):
        if minutes >= 2 * size:
            return counted(round(minutes / size), word)
    return counted(minutes, "minute") if minutes else "less than a minute"
