"""Rule flapping_instance: two processes use one group.instance.id and fence each other."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import EventOf, Facts, Finding, duration_text, picked
from kohort.fleet.findings.thresholds import Thresholds

NAME = "flapping_instance"


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find instance ids that changed their member id too often in a short time."""
    taken: dict[str, list[EventOf]] = {}
    for event in facts.of("rejoined"):
        if event.instance:
            taken.setdefault(event.instance, []).append(event)
    for instance, events in sorted(taken.items()):
        last = settings.flaps - 1
        if not any(
            later.at_ms - first.at_ms <= settings.flaps_within_ms
            for first, later in zip(events, events[last:], strict=False)
        ):
            continue
        hosts = sorted({event.host for event in events if event.host})
        yield facts.finding(
            NAME,
            "critical",
            f"{instance} was taken over {len(events)} times in {duration_text(events[-1].at_ms - events[0].at_ms)}, "
            f"from {len(hosts)} host{'' if len(hosts) == 1 else 's'} ({', '.join(hosts[:3])})",
            "two processes have the same group.instance.id, or one is restarted all the time: give each its own",
            since_ms=events[0].at_ms,
            until_ms=events[-1].at_ms,
            value=float(len(events)),
            evidence=picked([event.evidence() for event in events], settings.evidence_rows),
        )
