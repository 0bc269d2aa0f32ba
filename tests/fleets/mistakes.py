"""False and missed findings of a fleet whose faults are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kohort.fleet.ground_truth import Truth


def mistakes(truth: Truth, found: Iterable[tuple[str, str]]) -> list[str]:
    """Return false and missed findings as sentences, counted by scenario."""
    pairs = set(found)
    lines: Counter[str] = Counter()
    for group, known in truth.groups.items():
        named = {name for other, name in pairs if other == group}
        lines.update(f"{name} found in {known.scenario!r}" for name in named - known.expected - known.permitted)
        lines.update(f"{name} missed in {known.scenario!r}" for name in known.expected - named)
    unknown = {group for group, _ in pairs} - truth.groups.keys()
    lines.update(f"an unknown group: {group!r}" for group in unknown)
    return [f"{line} ({count} groups)" for line, count in sorted(lines.items())]
