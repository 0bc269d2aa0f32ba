"""Rule unloadable_log: some version of Kafka would fail to load a group's records, by the `LogCheck` of its fold.

Conditions of the preview in 3.7 to 3.9 alone are left out; `kohort log check` reports them too. Where records were
compacted away between two runs, earlier ones no longer represent the log, and the check begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import Facts, Finding, Thresholds
from kohort.fleet.schema import Evidence

NAME = "unloadable_log"


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find records of a group at which some released Kafka fails."""
    found = facts.violations
    if not found.count:
        return
    yield facts.finding(
        NAME,
        "critical",
        f"{found.first[0].sentence}: not loaded by {found.versions} ({', '.join(found.tickets)})",
        "no coordinator of these versions should take over this partition; kohort log check lists every record",
        since_ms=found.first[0].at_ms,
        value=float(found.count),
        evidence=[
            Evidence(facts.partition, each.offset, each.at_ms, f"{each.ticket}: {each.sentence}")
            for each in found.first[: settings.evidence_rows]
        ],
    )._replace(until_ms=found.last_ms)
