"""A log that some Kafka would not load: a `LogCheck` of each partition of bronze.

It is asked in the order of the log, so its records are sorted by offset inside of their partition; of committed offsets
only the first of each group comes along. Where a cleaner took records away between two runs, what was read before says
no longer what is in the log, and the check begins anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kohort.fleet.findings.facts import Evidence, Finding
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.log_check.load_check import KAFKA_17306, LogCheck, Step, Violation
from kohort.log.consumer_records import MEMBER_ASSIGNMENT

NAME = "unloadable_log"
GAP = -1
"""The type of what is no record: here records vanished before they were read."""


class Row(NamedTuple):
    """A record of bronze, as far as it matters here."""

    source: str
    partition: int
    offset: int
    at_ms: int
    record_type: int
    group: str
    member: str | None
    tombstone: bool
    fields: str | None


def find(rows: Iterable[Row], settings: Thresholds) -> Iterator[Finding]:
    """Find the groups of one partition at whose records some released Kafka stops; rows are in the order of the log.

    What only the preview of 3.7 to 3.9 minded is left out: `kohort log check` tells that, too.
    """
    check = LogCheck()
    found: dict[str, list[Violation]] = {}
    source, partition = "", 0
    for row in rows:
        source, partition = row.source, row.partition
        if row.record_type == GAP:
            check = LogCheck()
            continue
        for violation in check.take(step_of(row)):
            if violation.demand is not KAFKA_17306:
                found.setdefault(row.group, []).append(violation)
    for group, violations in sorted(found.items()):
        yield _finding(source, partition, group, violations, settings)


def _finding(source: str, partition: int, group: str, violations: list[Violation], settings: Thresholds) -> Finding:
    first = violations[0]
    tickets = ", ".join(sorted({each.demand.ticket for each in violations}))
    evidence = [
        Evidence(partition, each.step.offset, each.step.at_ms, f"{each.demand.ticket}: {each.sentence}")
        for each in violations[: settings.evidence_rows]
    ]
    return Finding(
        source,
        group,
        NAME,
        "critical",
        f"{first.sentence}: not loaded by {first.demand.versions} ({tickets})",
        first.step.at_ms,
        violations[-1].step.at_ms,
        float(len(violations)),
        evidence,
        "no coordinator of these versions should take over this partition; kohort log check tells every record",
    )


def step_of(row: Row) -> Step:
    """Return a record as a step."""
    held: list[tuple[str, int]] = []
    epoch = -1
    if row.record_type == MEMBER_ASSIGNMENT and row.fields:
        value: dict[str, Any] = json.loads(row.fields)
        epoch = int(value.get("memberEpoch", -1))
        held = [
            (str(topic["topicId"]), int(number))
            for name in ("assignedPartitions", "partitionsPendingRevocation")
            for topic in value.get(name) or ()
            for number in topic["partitions"]
        ]
    return Step(row.offset, row.at_ms, row.record_type, row.group or "", row.member or "", row.tombstone, epoch, held)
