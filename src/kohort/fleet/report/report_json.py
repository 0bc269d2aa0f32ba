"""The report as one JSON document: the fields of `FleetReport` by their names, names of groups as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any

from kohort.fleet.report.fleet_report import FleetReport
from kohort.fleet.report.summary import headline, points

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
