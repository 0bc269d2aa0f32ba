"""What a table holds, compared with what the log of its topic holds: rows missing, rows twice, rows from nowhere.

A reader of a table sees, at any time, of each partition what a beginning of the log makes, and nothing else. At the end
it is what the whole log makes. Rows are compared by place and text.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from interop.lake_torture.merged_keys import DELETES, KEYS
from interop.lake_torture.readers import Row

Log = Mapping[int, Mapping[int, str]]
"""Texts of a topic's records by partition and offset, without those of aborted transactions."""


class Name(StrEnum):
    """The promises that can be broken."""

    MISSING = "a row is missing"
    TWICE = "a row is there more than once"
    FOREIGN = "a row is there that the log has not"
    GAP = "a reader saw rows without the ones before them"
    NO_END = "a job had not read everything some time after the last kill"
    ALIVE = "a job did not end though its topic was made anew"
    NO_SENTENCE = "a job ended without a sentence that names its topic"
    CHANGED = "a table changed though its topic was made anew"


class Finding(NamedTuple):
    """One broken promise of one job: how many rows, and an example."""

    name: Name
    job: str
    rows: int
    detail: str

    def __str__(self) -> str:
        return f"{self.job}: {self.name} ({self.rows:,}): {self.detail}"


class Snapshot(NamedTuple):
    """What a reader saw of a partition: how many rows, how many of them different, and the last offset."""

    partition: int
    rows: int
    different: int
    last: int


@dataclass(slots=True)
class Counts:
    """Rows of one table by what is wrong with them."""

    rows: int = 0
    missing: int = 0
    twice: int = 0
    foreign: int = 0


def counted(rows: Iterable[Row], log: Log) -> tuple[Counts, dict[Name, str]]:
    """Count what is wrong with a table, and return an example of each kind."""
    found = Counter(rows)
    counts = Counts(found.total())
    examples: dict[Name, str] = {}

    def note(name: Name, text: str) -> None:
        examples.setdefault(name, text)

    for (partition, offset, text), times in sorted(found.items()):
        if log.get(partition, {}).get(offset) != text:
            counts.foreign += times
            note(Name.FOREIGN, f"partition {partition}, offset {offset}: {text}")
        elif times > 1:
            counts.twice += times - 1
            note(Name.TWICE, f"partition {partition}, offset {offset}: {text}, {times} times")
    for partition, texts in sorted(log.items()):
        for offset, text in sorted(texts.items()):
            if (partition, offset, text) not in found:
                counts.missing += 1
                note(Name.MISSING, f"partition {partition}, offset {offset}: {text}")
    return counts, examples


def judged(job: str, reader: str, rows: Iterable[Row], log: Log) -> tuple[Counts, list[Finding]]:
    """Compare a table with what it must hold."""
    counts, examples = counted(rows, log)
    number = {Name.MISSING: counts.missing, Name.TWICE: counts.twice, Name.FOREIGN: counts.foreign}
    return counts, [Finding(name, job, number[name], f"by {reader}: {text}") for name, text in examples.items()]


def snapshots(rows: Iterable[Row]) -> list[Snapshot]:
    """Reduce what a reader saw to what can be judged when the log is known."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for partition, offset, _ in rows:
        offsets[partition].append(offset)
    return [Snapshot(each, len(of), len(set(of)), max(of)) for each, of in sorted(offsets.items())]


def gaps(job: str, reader: str, seen: Iterable[Snapshot], log: Log) -> Iterator[Finding]:
    """Yield what a reader saw that is no beginning of a partition of the log."""
    for partition, rows, different, last in seen:
        due = sum(offset <= last for offset in log.get(partition, {}))
        if rows > different:
            detail = f"by {reader}, while jobs ran: partition {partition}, {rows} rows, {different} of them different"
            yield Finding(Name.TWICE, job, rows - different, detail)
        if different < due:
            detail = f"by {reader}, while jobs ran: partition {partition}, {different} of {due} rows up to {last}"
            yield Finding(Name.GAP, job, due - different, detail)


def as_numbered(log: Log) -> Log:
    """Return what a job makes of a log that puts the number of a record in its partition before its text."""
    return {
        partition: {offset: f"{number} {texts[offset]}" for number, offset in enumerate(sorted(texts), 1)}
        for partition, texts in log.items()
    }


def merged_states(texts: Mapping[int, str]) -> Iterator[dict[int, str]]:
    """Yield the rows by offset that merging the records of a partition makes, after none, one, two and so on."""
    rows: dict[int, str] = {}
    offset_of: dict[int, int] = {}
    yield rows
    for offset, text in sorted(texts.items()):
        rows.pop(offset_of.pop(offset % KEYS, -1), None)
        if offset % DELETES:
            rows[offset] = text
            offset_of[offset % KEYS] = offset
        yield rows


def as_merged(log: Log) -> Log:
    """Return what merging a log by key makes: the last record of each key that does not delete it."""
    made: dict[int, Mapping[int, str]] = {}
    for partition, texts in log.items():
        (made[partition],) = deque(merged_states(texts), 1)
    return made


def rows_seen(rows: Iterable[Row]) -> list[Row]:
    """Return what a reader saw, which are few rows."""
    return sorted(rows)


def no_states(job: str, reader: str, seen: Iterable[Row], log: Log) -> Iterator[Finding]:
    """Yield what a reader saw that merging no beginning of a partition of the log makes."""
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for partition, offset, text in seen:
        found[partition].append((offset, text))
    for partition, rows in found.items():
        by_offset = dict(rows)
        if len(by_offset) < len(rows):
            detail = f"by {reader}, while jobs ran: partition {partition}, {len(rows)} rows, {len(by_offset)} offsets"
            yield Finding(Name.TWICE, job, len(rows) - len(by_offset), detail)
        elif all(state != by_offset for state in merged_states(log.get(partition, {}))):
            detail = f"by {reader}, while jobs ran: partition {partition}, {len(rows)} rows up to {max(by_offset)}"
            yield Finding(Name.GAP, job, len(rows), f"{detail} are the table after no record")


class Landing(NamedTuple):
    """What a table holds of a log, how what a reader sees is noted, and what is wrong with that."""

    whole: Callable[[Log], Log]
    noted: Callable[[Iterable[Row]], Any]
    wrong: Callable[[str, str, Any, Log], Iterator[Finding]]


ADDED = Landing(lambda log: log, snapshots, gaps)
NUMBERED = Landing(as_numbered, snapshots, gaps)
MERGED = Landing(as_merged, rows_seen, no_states)
