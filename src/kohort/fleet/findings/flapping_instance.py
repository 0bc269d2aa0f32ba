"""Rule flapping_instance: two processes use one group.instance.id and fence each other."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import EventOf, Facts, Finding, are_close, duration_text
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.report.wording import counted

NAME = "flapping_instance"


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find instance ids that changed their member id too often in a short time."""
    taken: dict[str, list[EventOf]] = {}
    for event in facts.of("rejoined"):
        if event.instance:
            taken.setdefault(event.instance, []).append(event)
    for instance, events in sorted(taken.items()):
        if not are_close([event.at_ms for event in events], settings.flaps, settings.flaps_within_ms):
            continue
        hosts = sorted({event.host for event in events if event.host})
        yield facts.finding(
            NAME,
            "critical",
            f"{instance} was taken over {len(events)} times in {duration_text(events[-1].at_ms - events[0].at_ms)}, "
            f"from {counted(len(hosts), 'host')} ({', '.join(hosts[:3])})",
            "two processes have the same group.instance.id, or one is restarted all the time: give each its own",
            since_ms=events[0].at_ms,
            until_ms=events[-1].at_ms,
            value=float(len(events)),
            evidence=[event.evidence() for event in events],
        )
