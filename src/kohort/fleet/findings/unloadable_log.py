"""Rule unloadable_log: some version of Kafka would fail to load a log, by a `LogCheck` of each partition of bronze.

Records are sorted by offset within their partition; of committed offsets only the first of each group is included.
Where records were compacted away between two runs, earlier rows no longer represent the log, and the check begins anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kohort.fleet.findings.facts import Finding
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.log_check.load_check import KAFKA_17306, LogCheck, Step, Violation
from kohort.fleet.schema import Evidence
from kohort.log.consumer_records import MEMBER_ASSIGNMENT

NAME = "unloadable_log"
GAP = -1
"""Pseudo record type: records were compacted away before they were read."""


class Row(NamedTuple):
    """The columns of a bronze record that the check needs."""

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
    """Find the groups of one partition at whose records some released Kafka fails; rows are in the order of the log.

    Conditions of the preview in 3.7 to 3.9 alone are left out; `kohort log check` reports them too.
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
        "no coordinator of these versions should take over this partition; kohort log check lists every record",
    )


def step_of(row: Row) -> Step:
    """Return a record as a step."""
    owned_partitions: list[tuple[str, int]] = []
    epoch = -1
    if row.record_type == MEMBER_ASSIGNMENT and row.fields:
        value: dict[str, Any] = json.loads(row.fields)
        epoch = int(value.get("memberEpoch", -1))
        owned_partitions = [
            (str(topic["topicId"]), int(number))
            for name in ("assignedPartitions", "partitionsPendingRevocation")
            for topic in value.get(name) or ()
            for number in topic["partitions"]
        ]
    return Step(
        row.offset,
        row.at_ms,
        row.record_type,
        row.group or "",
        row.member or "",
        row.tombstone,
        epoch,
        owned_partitions,
    )
