"""Values of a report, gathered from the fleet's tables; its summary, and the whole report as JSON.

Every list is bounded by `ReportLimits` and has the number of entries left out beside it, so that a report of ten
thousand groups is as large as one of a thousand. Names are as in the log and must be escaped when they are shown. The
summary has a headline, and the most important findings with advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from math import isfinite
from typing import Any, NamedTuple

from kohort.drawing.display_text import counted, display_sentence, duration, rule_title
from kohort.fleet.schema import HOUR_MS, Evidence

SEVERITIES = ("critical", "warning", "info")
"""In order, the worst first."""

READY, NOT_READY = "ready_for_consumer", "not_ready_for_consumer"
"""The findings that each classic group with members has: a section of their own, and not urgent."""


class GroupKey(NamedTuple):
    """A group of one cluster or log."""

    source: str
    group: str


def key_of(row: Any) -> GroupKey:
    """Return the group of a row."""
    return GroupKey(row["source"], row["group"])


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """How much of each list a report shows; the rest is counted."""

    groups: int = 4_000
    active_groups: int = 400
    findings_of_a_rule: int = 25
    findings_of_a_group: int = 5
    evidence: int = 6
    heat_groups: int = 30
    ranked_groups: int = 20
    timelines: int = 8
    timeline_partitions: int = 16
    timeline_spans: int = 1_500
    reasons: int = 12
    reason_groups: int = 10
    window_hours: int = 31 * 24


@dataclass(frozen=True, slots=True)
class Totals:
    """The fleet in numbers, over all of its groups and the report's hours."""

    groups: int
    members: int
    partitions: int
    kinds: tuple[tuple[str, int], ...]
    states: tuple[tuple[str, int], ...]
    rebalances: int
    rebalances_failed: int
    unowned_s: float
    commits: int
    lag: int | None
    severities: tuple[tuple[str, int], ...]
    """How many groups have this as their worst severity."""


@dataclass(frozen=True, slots=True)
class FindingLine:
    """A finding of a rule about one group."""

    key: GroupKey
    rule: str
    severity: str
    sentence: str
    advice: str
    from_ms: int | None
    until_ms: int | None
    value: float | None
    evidence: tuple[Evidence, ...]
    evidence_left_out: int = 0


@dataclass(frozen=True, slots=True)
class RuleFindings:
    """All findings of one rule: the number of groups by severity, and the worst findings."""

    rule: str
    severities: tuple[tuple[str, int], ...]
    groups: int
    shown: tuple[FindingLine, ...]

    @property
    def count(self) -> int:
        """How many findings there are."""
        return sum(count for _, count in self.severities)

    @property
    def severity(self) -> str:
        """The worst severity among them."""
        return min((name for name, _ in self.severities), key=severity_rank, default="info")

    @property
    def left_out(self) -> int:
        """How many findings are not among those shown."""
        return self.count - len(self.shown)


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One group, over the report's hours.

    More than 20 attributes: each is a column of the page's table.
    """

    key: GroupKey
    kind: str
    state: str
    members: int
    partitions: int
    topics: tuple[str, ...]
    assignor: str | None
    protocols: tuple[str, ...]
    rebalances: int
    rebalances_failed: int
    rebalance_ms_max: int
    unowned_s: float
    moved: int
    commits: int
    lag: int | None
    static_share: float | None
    first_seen_ms: int | None
    last_seen_ms: int | None
    last_commit_ms: int | None
    severity: str | None
    findings: int
    activity: tuple[tuple[int, int], ...] = ()
    """Columns with rebalances and how many; only of the first `ReportLimits.active_groups` groups."""


@dataclass(frozen=True, slots=True)
class HeatRow:
    """The rebalances of one group, by column of the report's time."""

    key: GroupKey
    rebalances: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """The time axis of plots: equal steps of whole hours."""

    from_ms: int
    step_ms: int
    count: int

    @property
    def until_ms(self) -> int:
        """The end of the last column."""
        return self.from_ms + self.step_ms * self.count

    def start_ms(self, column: int) -> int:
        """Return the beginning of a column."""
        return self.from_ms + column * self.step_ms


class Span(NamedTuple):
    """A member's ownership of a partition; `until_ms` is its end or the end of the timeline."""

    member: str
    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One partition of a timeline."""

    partition: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Partition owners of one group in its worst hour."""

    key: GroupKey
    from_ms: int
    until_ms: int
    rows: tuple[TimelineRow, ...]
    partitions_left_out: int
    spans_left_out: int
    empty: tuple[tuple[int, int], ...] = ()
    """Times at which the group had no members, when a missing owner is no gap."""


@dataclass(frozen=True, slots=True)
class BlockingReason:
    """A reason why groups cannot move to the consumer protocol, with advice."""

    advice: str
    example: str
    groups: int
    shown: tuple[GroupKey, ...]


@dataclass(frozen=True, slots=True)
class Readiness:
    """Progress of the fleet's migration from the classic protocol."""

    moved: int
    ready: int
    not_ready: int
    unknown: int
    reasons: tuple[BlockingReason, ...]
    reasons_left_out: int

    @property
    def classic(self) -> int:
        """How many groups use the classic protocol."""
        return self.ready + self.not_ready + self.unknown


@dataclass(frozen=True, slots=True)
class ReportInput:
    """The input of the report."""

    sources: tuple[str, ...]
    records: int
    tombstones: int
    kinds: tuple[tuple[str, int], ...]
    quarantined: tuple[tuple[str, int], ...]
    hours_outside: int


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The values of a report."""

    made_at_ms: int
    columns: Columns
    totals: Totals
    rules: tuple[RuleFindings, ...]
    further: tuple[FindingLine, ...]
    """Further findings of the first `ReportLimits.active_groups` groups, without evidence."""
    fleet_rebalances: tuple[int, ...]
    heat: tuple[HeatRow, ...]
    heat_left_out: tuple[int, int]
    """How many further groups had rebalances, and how many they had."""
    ranking: tuple[tuple[GroupKey, float], ...]
    ranking_left_out: tuple[int, float]
    timelines: tuple[Timeline, ...]
    readiness: Readiness
    groups: tuple[GroupLine, ...]
    read: ReportInput
    limits: ReportLimits


def severity_rank(severity: str | None) -> int:
    """Return the rank of a severity: 0 is the worst; unknown ones are last."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def columns_of(from_ms: int, until_ms: int, most: int = 168) -> Columns:
    """Return a time axis of at most `most` columns of 1, 2, 3, 4, 6, 12 or more hours, from a whole step on."""
    hours = max(1, -(-(until_ms - from_ms) // HOUR_MS))
    days = -(-hours // (24 * (most - 1)))
    step = next((each for each in (1, 2, 3, 4, 6, 12) if hours <= each * (most - 1)), 24 * days)
    step_ms = step * HOUR_MS
    start_ms = from_ms - from_ms % step_ms
    return Columns(start_ms, step_ms, max(1, -(-(until_ms - start_ms) // step_ms)))


POINTS = 7
"""Findings listed in the summary; the others are in the section of findings."""

WORDS = {"critical": "Act now", "warning": "Look into it", "info": "Good to know"}
"""Severities as a request to the operator."""


@dataclass(frozen=True, slots=True)
class Point:
    """One thing to do."""

    severity: str
    rule: str
    title: str
    sentence: str
    advice: str
    groups: tuple[GroupKey, ...]
    more_groups: int


def headline(report: FleetReport) -> str:
    """Return the fleet's state in one sentence."""
    severities = dict(report.totals.severities)
    critical, warning = severities.get("critical", 0), severities.get("warning", 0)
    everything = counted(report.totals.groups, "group")
    if not report.totals.groups:
        return "No group was found in what was read."
    if not critical and not warning:
        was = "was" if report.totals.groups == 1 else "were"
        return f"Nothing is wrong with the {everything} that {was} read."
    parts = []
    if critical:
        parts.append(f"{critical:,} of {everything} {'needs' if critical == 1 else 'need'} action now")
    if warning:
        looked = f"{warning:,}{'' if critical else f' of {everything}'} should be looked into"
        parts.append(looked)
    return ", and ".join(parts) + "."


def lead(report: FleetReport) -> str:
    """Return the rebalances and unowned time of the fleet in one sentence."""
    totals = report.totals
    if not totals.rebalances and not totals.unowned_s:
        return "There was no rebalance in that time."
    unowned = f"partitions were without an owner for {duration(totals.unowned_s)} of partition time"
    failed = f" ({totals.rebalances_failed:,} of them failed)" if totals.rebalances_failed else ""
    return f"There were {counted(totals.rebalances, 'rebalance')}{failed}; {unowned}."


def points(report: FleetReport) -> tuple[list[Point], int]:
    """Return what to do, the worst first, and how many further rules have findings."""
    wrong = [
        rule
        for rule in report.rules
        if severity_rank(rule.severity) < severity_rank("info") and rule.rule not in (READY, NOT_READY)
    ]
    wrong.sort(key=lambda rule: (severity_rank(rule.severity), -rule.groups, rule.rule))
    return [_point(rule) for rule in wrong[:POINTS]], max(0, len(wrong) - POINTS)


def _point(rule: RuleFindings) -> Point:
    worst = rule.shown[0]
    keys = tuple(dict.fromkeys(finding.key for finding in rule.shown))[:3]
    return Point(
        severity=rule.severity,
        rule=rule.rule,
        title=rule_title(rule.rule),
        sentence=display_sentence(worst.sentence),
        advice=display_sentence(worst.advice),
        groups=keys,
        more_groups=max(0, rule.groups - len(keys)),
    )


PAIRS = frozenset({"kinds", "states", "severities", "quarantined"})
"""Fields of (name, count) pairs, which become objects."""


def document(report: FleetReport) -> dict[str, Any]:
    """Return the report as what `json.dumps` takes."""
    todo, more = points(report)
    first = {
        "headline": headline(report),
        "todo": [_plain(each) for each in todo],
        "todo_left_out": more,
    }
    return {**first, **_plain(report)}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _field(each.name, getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, float) and not isfinite(value):
        return None  # JSON has no other number for it
    return value


def _field(name: str, value: Any) -> Any:
    return dict(value) if name in PAIRS else _plain(value)
