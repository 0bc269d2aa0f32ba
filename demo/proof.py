"""Whether every row arrived, and arrived once: deliveries, stored rows and totals held against the source, exactly.

Three accounts that share nothing: what the workers say they were handed, which rows the table holds, and what the same
question answers when asked of the source file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from demo.flights import NOTHING, Group, Totals
from demo.journal import Entry
from demo.result import Result


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Rows handed to the workers' functions, with every repetition."""

    rows: int
    distinct_rows: int
    rounds: int
    open_rows: int
    """Rows of rounds that a kill cut off: begun and neither committed nor refused."""
    refused_rows: int
    """Rows of rounds whose commit the group refused."""
    missing: tuple[tuple[int, int, int], ...]
    """Partition, first and last-plus-one offset that no worker was handed."""

    @property
    def repeated_rows(self) -> int:
        """Rows handed over again: each delivery of a row beyond its first."""
        return self.rows - self.distinct_rows


def count_deliveries(entries: Iterable[Entry], ends: Sequence[int]) -> Deliveries:
    """Count what the journals say was handed over, against logs that end at `ends`."""
    rounds: dict[tuple[str, int, int], tuple[Entry, str]] = {}
    for entry in entries:
        key = entry.worker, entry.run, entry.round_number
        if entry.kind == "began":
            rounds[key] = entry, "open"
        elif entry.kind in ("committed", "refused") and key in rounds:
            rounds[key] = rounds[key][0], entry.kind
    spans: dict[int, list[tuple[int, int]]] = {partition: [] for partition in range(len(ends))}
    for entry, _ in rounds.values():
        for each in entry.ranges:
            spans[each.partition.partition].append((each.start, each.stop))
    missing = tuple(
        (partition, start, stop)
        for partition, end in enumerate(ends)
        for start, stop in uncovered(spans[partition], end)
    )
    return Deliveries(
        rows=sum(entry.rows for entry, _ in rounds.values()),
        distinct_rows=sum(ends) - sum(stop - start for _, start, stop in missing),
        rounds=len(rounds),
        open_rows=sum(entry.rows for entry, outcome in rounds.values() if outcome == "open"),
        refused_rows=sum(entry.rows for entry, outcome in rounds.values() if outcome == "refused"),
        missing=missing,
    )


def uncovered(spans: Iterable[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """Return the parts of 0 to `end` that no span covers."""
    found: list[tuple[int, int]] = []
    position = 0
    for start, stop in sorted(spans):
        if start > position:
            found.append((position, start))
        position = max(position, stop)
    if position < end:
        found.append((position, end))
    return found


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome; it holds when nothing is lost, nothing is there twice, and every total is equal."""

    sent_rows: int
    result_rows: int
    lost_rows: int
    doubled_rows: int
    deliveries: Deliveries
    groups: int
    differences: tuple[str, ...]
    """One sentence for each thing that is wrong, naming the rows."""

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.differences


def prove(
    *,
    placed: Mapping[int, Mapping[int, int]],
    ends: Sequence[int],
    deliveries: Deliveries,
    result: Result,
    expected: Mapping[Group, Totals],
) -> Proof:
    """Hold the three accounts against each other. `placed` are the source's row numbers by partition and
    offset, `ends` the offsets at which the topic's partitions end.
    """
    wrong: list[str] = []
    sent = sum(len(offsets) for offsets in placed.values())
    lost = doubled = 0
    for partition, end in enumerate(ends):
        stored = result.stored.get(partition, [])
        for start, stop in uncovered(((offset, offset + 1) for offset, _ in stored), end):
            lost += stop - start
            wrong.append(f"the table lacks {_rows(placed, partition, [*range(start, stop)])}")
        twice = sorted(offset for offset, times in Counter(offset for offset, _ in stored).items() if times > 1)
        if twice:
            doubled += len(stored) - len({offset for offset, _ in stored})
            wrong.append(f"the table has more than once {_rows(placed, partition, twice)}")
        other = [offset for offset, number in stored if placed.get(partition, {}).get(offset) != number]
        if other:
            wrong.append(f"the table has other rows for {_rows(placed, partition, other)}")
    for partition, start, stop in deliveries.missing:
        wrong.append(f"no worker was handed {_rows(placed, partition, [*range(start, stop)])}")
    for partition, end in enumerate(ends):
        if sorted(placed.get(partition, ())) != list(range(end)):
            wrong.append(
                f"partition {partition} ends at {end}, {len(placed.get(partition, ()))} rows were acknowledged"
            )
    for group in sorted(expected.keys() | result.totals.keys()):
        wanted, found = expected.get(group, NOTHING), result.totals.get(group, NOTHING)
        if wanted != found:
            named = f"origin {group.origin}, carrier {group.carrier}, month {group.month}"
            wrong.append(f"{named}: the source file gives {_shown(wanted)}, the pipeline {_shown(found)}")
    return Proof(
        sent_rows=sent,
        result_rows=result.rows,
        lost_rows=lost,
        doubled_rows=doubled,
        deliveries=deliveries,
        groups=len(result.totals),
        differences=tuple(wrong),
    )


def _shown(totals: Totals) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(Totals._fields, totals, strict=True))


def _rows(placed: Mapping[int, Mapping[int, int]], partition: int, offsets: Sequence[int]) -> str:
    sent = placed.get(partition, {})
    numbers = [str(sent[offset]) for offset in offsets if offset in sent]
    listed = ", ".join(numbers[:10]) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
    return f"partition {partition}, offsets {offsets[0]} to {offsets[-1]}: rows {listed} of the source file"
