"""Summary of a report: a headline, the most important findings with advice, and the whole report as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from math import isfinite
from typing import Any

from kohort.drawing.display_text import counted, display_sentence, duration, rule_title
from kohort.fleet.report.fleet_report import NOT_READY, READY, FleetReport, GroupKey, RuleFindings, severity_rank

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
