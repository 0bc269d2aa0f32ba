"""Whether every row arrived, and arrived once: deliveries, files and totals held against the source, exactly.

Three accounts that share nothing: what the workers say they were handed, which offsets the result's
files cover, and what the same question answers when asked of the source file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from demo.flights import NOTHING, Group, Totals
from demo.journal import Entry
from demo.result import Chain, Result


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
    superseded_files: int
    files: int
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
    chains: Sequence[Chain],
    result: Result,
    expected: Mapping[Group, Totals],
) -> Proof:
    """Hold the three accounts against each other. `placed` are the source's row numbers by partition and
    offset, `ends` the offsets at which the topic's partitions end.
    """
    wrong: list[str] = []
    sent = sum(len(offsets) for offsets in placed.values())
    lost = doubled = 0
    for partition, chain in enumerate(chains):
        for start, stop in chain.gaps:
            lost += stop - start
            wrong.append(f"no file covers {_rows(placed, partition, start, stop)}")
    for part, rows in result.misfits:
        lost += max(0, part.stop - part.start - rows)
        doubled += max(0, rows - (part.stop - part.start))
        wrong.append(f"{part.name} has {rows} rows of {_rows(placed, part.partition, part.start, part.stop)}")
    for partition, start, stop in deliveries.missing:
        wrong.append(f"no worker was handed {_rows(placed, partition, start, stop)}")
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
        superseded_files=sum(len(chain.superseded) for chain in chains),
        files=sum(len(chain.parts) for chain in chains),
        groups=len(result.totals),
        differences=tuple(wrong),
    )


def _shown(totals: Totals) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(Totals._fields, totals, strict=True))


def _rows(placed: Mapping[int, Mapping[int, int]], partition: int, start: int, stop: int) -> str:
    offsets = placed.get(partition, {})
    ids = [str(offsets[offset]) for offset in range(start, stop) if offset in offsets]
    listed = ", ".join(ids[:10]) + (f" and {len(ids) - 10} more" if len(ids) > 10 else "")
    return f"partition {partition}, offsets {start} to {stop - 1}: rows {listed} of the source file"
