"""Bronze tables: inputs are planned, read once, and stored as records, quarantine, counts, topics and positions.

Decoding is the expensive part and must happen once, so a task yields rows of three tables: records, quarantine, and the
position reached in each partition, which the next run gives as `since`. They are planned before any task starts, so
that a wrong input fails at once. The task that reads records counts and writes them; the other rows, which are few, go
to the driver. A row that is in quarantine is not added again.
"""

from __future__ import annotations

import json
import time
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from kohort.fleet.decode.value_json import kinds
from kohort.fleet.inputs.input_splits import Input, Kind, Since, Split, packed, text_splits
from kohort.fleet.queries import query_over, quoted
from kohort.fleet.run_tasks import Tasks
from kohort.fleet.schema import COUNTS, METRICS, QUARANTINE, RECORDS, STATE_CHANGES, TOPICS, Table, bucket_of
from kohort.fleet.table_files import StoredRows, writer_of
from kohort.fleet.tables import Run
from kohort.spark.tables.delta_files import DeltaFile
from kohort.spark.tables.delta_storage import DeltaPlan

if TYPE_CHECKING:
    import pyarrow as pa


Part = Callable[[], "Iterator[pa.RecordBatch]"]
"""Reads the rows of a task, with the columns of `DECODED`; it travels to other processes."""

TASK_BYTES: Final = 128 << 20
"""Largest size of a task, unless a single file is larger."""

_LEAST_BYTES: Final = 16 << 20
"""Least size of a task: starting a process and its decoder takes as long as decoding this much."""


def plan(inputs: Sequence[Input], since: Since) -> list[Split]:
    """Return the splits to read. Raises KafkaError when a cluster does not list its offsets."""
    from kohort.fleet.inputs import cluster_input, segment_files

    found: list[Split] = []
    for given in inputs:
        if given.kind == "cluster":
            found += cluster_input.plan(given, since)
        elif given.kind == "segment":
            found += segment_files.plan(given, since)
        elif given.kind in ("dump", "export"):
            found += text_splits(given, since)
    return segment_files.without_replicas(found)


def has_unread(inputs: Sequence[Input], since: Since) -> bool:
    """Whether inputs may have something that is not read yet. Raises KafkaError as `plan` does."""
    return any(each.kind not in ("cluster", "segment") for each in inputs) or bool(plan(inputs, since))


def read(inputs: Sequence[Input], since: Since, parallelism: int) -> list[Part]:
    """Return the tasks that read `inputs` from the positions `since` on, for so many at once.

    Raises KafkaError when a cluster does not list its offsets, or as a task does when it stays unreachable; all other
    errors become rows of quarantine.
    """
    splits = plan(inputs, since)
    size = sum(split.size for split in splits)
    most = max(min(TASK_BYTES, size // max(parallelism, 1)), _LEAST_BYTES)
    return [partial(_rows_of_all, each) for each in packed(splits, most)]


def read_beside(inputs: Sequence[Input], kind: Kind) -> Iterator[pa.RecordBatch]:
    """Yield the rows of inputs that are no records: metrics of members, or logs of brokers."""
    return _rows_of_all([split for given in inputs if given.kind == kind for split in text_splits(given, {})])


def _rows_of_all(splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    for split in splits:
        yield from rows_of(split)


def settle(records: StoredRows, pending: StoredRows) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the commits of transactions whose marker was read after them, with its outcome, and those still open.

    `records` are new, `pending` are those that earlier runs left open.
    """
    is_open = dataset.field("transaction") == "open"
    is_marker = dataset.field("record_type").is_null() & dataset.field("producer_id").is_valid()
    rows = [row for each in (records, pending) for row in each.dataset().filter(is_open).to_table().to_pylist()]
    place = ["source", "partition", "producer_id", "offset", "transaction"]
    markers: dict[tuple[str, int, int], list[tuple[int, str]]] = {}
    for row in records.dataset().filter(is_marker).to_table(columns=place).to_pylist():
        source, partition, producer, offset, outcome = (row[name] for name in place)
        markers.setdefault((source, partition, producer), []).append((offset, outcome))
    for ends in markers.values():
        ends.sort()
    closed, still_open = [], []
    for row in rows:
        ends = markers.get((row["source"], row["partition"], row["producer_id"]), [])
        at = bisect(ends, (row["offset"], "~"))
        if at < len(ends):
            closed.append({**row, "transaction": ends[at][1]})
        else:
            still_open.append(row)
    return closed, still_open


def topics(inputs: Sequence[Input], now_ms: int) -> list[dict[str, Any]]:
    """Return rows of bronze `topics`, with end offsets, read from the live clusters.

    Raises KafkaError when a cluster does not answer.
    """
    from kohort.fleet.inputs.cluster_input import topics_of

    return [
        {"source": given.source, "read_at_ms": now_ms, **row}
        for given in inputs
        if given.kind == "cluster"
        for row in topics_of(given)
    ]


def rows_of(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split: with the columns of `schema.DECODED`, or of the table of its kind."""
    from kohort.fleet.inputs import broker_log, cluster_input, export_lines, kafka_dump, member_metrics, segment_files

    read: dict[str, Callable[[Split], Iterator[pa.RecordBatch]]] = {
        "segment": segment_files.read,
        "cluster": cluster_input.read,
        "dump": kafka_dump.read,
        "export": export_lines.read,
        "metrics": member_metrics.read,
        "broker_log": broker_log.read,
    }
    return read[split.kind](split)


Positions = Mapping[str, Mapping[int, int]]

SIDE_TABLES: Final[Mapping[Kind, Table]] = {"metrics": METRICS, "broker_log": STATE_CHANGES}
"""By kind of input, the table of its rows, which are no records."""

_LISTS: Final = ("topics", "initializingTopics", "initializedTopics", "deletingTopics")
_TYPES_WITH_TOPICS: Final = (4, 15)
"""Record types whose values contain topic ids with their names."""


class InputRows(NamedTuple):
    """The content of inputs: what `bronze_reader.read` gives, rows of `topics`, and rows of other tables."""

    parts: Sequence[Part]
    topics: Callable[[], Iterable[Mapping[str, Any]]] | None = None
    side_tables: tuple[tuple[Table, Iterable[pa.RecordBatch]], ...] = ()
    """Member metrics and broker logs: tables whose rows have a position in a file, and are added once."""


class StoredBronze(NamedTuple):
    """Result of storing bronze."""

    records: int
    quarantined: int
    side_rows: int
    """Rows of member metrics and of broker logs."""
    positions: dict[str, dict[int, int]]
    dense: frozenset[tuple[str, int]]
    """Partitions in which no offset is missing between the previous run's end and this one's: nothing was compacted."""
    places: frozenset[tuple[str, int]]
    """Sources and buckets with new records."""
    has_open: bool
    """Whether some commits belong to a transaction whose marker was not read."""


def read_inputs(inputs: Sequence[Any], positions: Positions, parallelism: int) -> InputRows:
    """Plan the reading of new records. Raises KafkaError when a cluster does not list its offsets."""
    kinds = {given.kind for given in inputs}
    side_tables = tuple((table, read_beside(inputs, kind)) for kind, table in SIDE_TABLES.items() if kind in kinds)
    parts = read(inputs, positions, parallelism)
    return InputRows(parts, lambda: topics(inputs, int(time.time() * 1000)), side_tables)


def write_bronze(tasks: Tasks, run: Run, read: InputRows) -> StoredBronze:
    """Store bronze and return the counts."""
    found = Stored()
    for stored in tasks.run(partial(store, run.plan(RECORDS), run.number), read.parts):
        found.add(stored)
    positions: dict[str, dict[int, int]] = {}
    for each in sorted(found.positions, key=itemgetter("next_offset")):
        positions.setdefault(each["source"], {})[each["partition"]] = each["next_offset"]
    refused = _put_into_quarantine(found.quarantined, run)
    side_rows = sum(_add_new(run, table, rows) for table, rows in read.side_tables)
    if not found.files:
        return StoredBronze(0, refused, side_rows, positions, frozenset(), frozenset(), False)
    run.take(RECORDS, found.files)
    run.adopt(RECORDS)
    counts = _count(found.tally, run)
    _put_topics(run, [*found.tally.topic_rows(), *(() if read.topics is None else read.topics())])
    dense = _dense(counts, run, positions)
    places = frozenset((source, bucket_of(partition)) for source, partition in counts)
    return StoredBronze(sum(counts.values()), refused, side_rows, positions, dense, places, found.tally.has_open)


@dataclass(slots=True)
class TopicTally:
    """Counts over bronze `records`."""

    counts: dict[tuple[str, int, int | None], tuple[int, int, int]] = field(default_factory=dict)
    """By source, partition and record type: records, tombstones among them, and the last offset."""
    has_open: bool = False
    """Whether some commits belong to a transaction whose marker was not read."""
    topics: dict[tuple[str, str, str], int | None] = field(default_factory=dict)
    """By source, topic id and name: the number of partitions according to a record."""

    def add_count(self, key: tuple[str, int, int | None], records: int, tombstones: int, last: int) -> None:
        """Add records of one type in one partition."""
        known = self.counts.get(key, (0, 0, -1))
        self.counts[key] = known[0] + records, known[1] + tombstones, max(known[2], last)

    def add_topic(self, key: tuple[str, str, str], partitions: int | None) -> None:
        """Add a topic; the largest number of partitions of it counts."""
        known = [each for each in (self.topics.get(key), partitions) if each is not None]
        self.topics[key] = max(known, default=None)

    def add(self, other: TopicTally) -> None:
        """Add the counts over other files."""
        for key, counts in other.counts.items():
            self.add_count(key, *counts)
        self.has_open |= other.has_open
        for name, partitions in other.topics.items():
            self.add_topic(name, partitions)

    def count_rows(self) -> list[dict[str, Any]]:
        return [
            dict(zip(COUNTS.names, (*key, _kind(key[2]), *found), strict=True)) for key, found in self.counts.items()
        ]

    def topic_rows(self) -> list[dict[str, Any]]:
        return [
            {"source": source, "topic_id": topic_id, "topic": topic, "partitions": partitions}
            for (source, topic_id, topic), partitions in self.topics.items()
        ]


@dataclass(slots=True)
class Stored:
    """What tasks have stored, and the few rows that are not records."""

    files: list[DeltaFile] = field(default_factory=list)
    tally: TopicTally = field(default_factory=TopicTally)
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    positions: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Stored) -> None:
        """Add what another task has stored."""
        self.files += other.files
        self.tally.add(other.tally)
        self.quarantined += other.quarantined
        self.positions += other.positions


def store(plan: DeltaPlan, run: int, part: Part) -> Stored:
    """Write and count the records among the rows of a task."""
    stored = Stored()
    with writer_of(plan) as records:
        for batch in part():
            is_refused, is_position = (pc.is_valid(batch[name]) for name in ("reason", "next_offset"))
            stored.quarantined += batch.filter(is_refused).to_pylist()
            stored.positions += batch.filter(pc.and_not(is_position, is_refused)).to_pylist()
            rows = batch.filter(pc.invert(pc.or_(is_refused, is_position)))
            if rows.num_rows:
                count(pa.Table.from_batches([rows]), stored.tally)
                records.add(rows.append_column("run", pa.repeat(pa.scalar(run, pa.int64()), rows.num_rows)))
        stored.files = records.close()
    return stored


def count(rows: pa.Table, found: TopicTally) -> None:
    """Add rows of bronze `records` to a tally."""
    by_type = rows.group_by(["source", "partition", "record_type"]).aggregate(
        [("offset", "count"), ("tombstone", "sum"), ("offset", "max")]
    )
    for row in by_type.to_pylist():
        key = row["source"], row["partition"], row["record_type"]
        found.add_count(key, row["offset_count"], row["tombstone_sum"] or 0, row["offset_max"])
    found.has_open |= bool(pc.any(pc.equal(rows["transaction"], "open")).as_py())
    named = rows.filter(pc.is_valid(rows["topic_id"]))
    for row in named.group_by(["source", "topic_id", "topic"]).aggregate([]).to_pylist():
        found.add_topic((row["source"], row["topic_id"], row["topic"]), None)
    if any(each in _TYPES_WITH_TOPICS for each in by_type["record_type"].to_pylist()):
        wanted = pc.is_in(rows["record_type"], pa.array(_TYPES_WITH_TOPICS, pa.int32()))
        for row in rows.filter(wanted).select(["source", "fields"]).to_pylist():
            _name_topics(row["source"], row["fields"], found)


def _name_topics(source: str, fields: str | None, found: TopicTally) -> None:
    value: Mapping[str, Any] = json.loads(fields) if fields else {}
    for each in (each for name in _LISTS for each in value.get(name) or ()):
        if each.get("topicId") and each.get("topicName"):
            found.add_topic((source, each["topicId"], each["topicName"]), each.get("numPartitions"))


def _kind(record_type: int | None) -> str:
    return "TransactionMarker" if record_type is None else kinds().get(record_type, "unknown")


def _put_into_quarantine(rows: Iterable[Mapping[str, Any]], run: Run) -> int:
    place = itemgetter("source", "file", "partition", "position", "offset", "reason")
    known = {place(row) for row in run.small_rows(QUARANTINE)}
    today = datetime.now(UTC).date()
    new: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        if place(row) not in known:
            new.setdefault(place(row), {**row, "day": today})
    if new:
        run.store_small(QUARANTINE, list(new.values()))
        run.adopt(QUARANTINE)
    return len(new)


def _add_new(run: Run, table: Table, rows: Iterable[pa.RecordBatch]) -> int:
    """Add the rows that a table does not contain yet, and return their number.

    Rows are compared by position and content, because a rotated file has other content at the same position. The
    modification time of a file of metrics is not part of its content.
    """
    names = [name for name in table.names if table is not METRICS or name != "at_ms"]
    same = " AND ".join(f'new."{name}" IS NOT DISTINCT FROM known."{name}"' for name in names)
    new = pa.Table.from_batches(rows, schema=table.arrow())
    with query_over({"new": new, "known": run.rows(table).dataset()}) as query:
        run.store(table, query.batches(f"SELECT {quoted(*table.names)} FROM new ANTI JOIN known ON {same}"))
    if added := run.rows_written(table):
        run.adopt(table)
    return added


def _count(new: TopicTally, run: Run) -> dict[tuple[str, int], int]:
    """Add the new records to what is counted; return how many there are of each partition."""
    found: dict[tuple[str, int], int] = {}
    counts = {_key_of_count(row): row for row in run.small_rows(COUNTS)}
    for row in new.count_rows():
        place = row["source"], row["partition"]
        found[place] = found.get(place, 0) + row["records"]
        known = counts.get(_key_of_count(row))
        if known is not None:
            row["records"] += known["records"]
            row["tombstones"] += known["tombstones"]
            row["last_offset"] = max(row["last_offset"], known["last_offset"])
        counts[_key_of_count(row)] = row
    run.store_small(COUNTS, [row for _, row in sorted(counts.items())])
    run.put(COUNTS)
    return found


def _key_of_count(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["source"], row["partition"], -1 if row["record_type"] is None else row["record_type"]


def _put_topics(run: Run, new: Iterable[Mapping[str, Any]]) -> None:
    """Return one row for each topic, with the latest known values."""
    topics: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in (*run.small_rows(TOPICS), *new):
        key = row["source"], row["topic_id"] or "", row["topic"] or ""
        known = topics.setdefault(key, dict(row))
        if (row.get("read_at_ms") or 0) >= (known.get("read_at_ms") or 0):
            known.update({name: value for name, value in row.items() if value is not None})
    run.store_small(TOPICS, [row for _, row in sorted(topics.items())])
    run.put(TOPICS)


def names_of_topics(run: Run) -> dict[tuple[str, str], str]:
    """Return the names of topic ids, by source and id."""
    rows = run.small_rows(TOPICS)
    return {(row["source"], row["topic_id"]): row["topic"] for row in rows if row["topic_id"] and row["topic"]}


def _dense(counts: Mapping[tuple[str, int], int], run: Run, positions: Positions) -> frozenset[tuple[str, int]]:
    known = run.tables.positions
    return frozenset(
        (source, partition)
        for source, ends in positions.items()
        for partition, end in ends.items()
        if counts.get((source, partition), 0) == end - known.get(source, {}).get(partition, -1)
    )
