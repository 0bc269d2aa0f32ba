"""Storing bronze tables: decoded records, quarantine, counts, topics, and the position of each partition.

Inputs are read once, into one frame with records, quarantine and positions (`bronze_reader`). It is written once, and
its records are renamed into their table. A row that is already in quarantine is not added again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kohort.fleet.bronze.bronze_reader import read, read_beside, topics
from kohort.fleet.bronze.record_tally import Tally, tally, tally_by_spark
from kohort.fleet.inputs.input_splits import Kind
from kohort.fleet.schema import COUNTS, DECODED, METRICS, QUARANTINE, RECORDS, STATE_CHANGES, TOPICS, Table
from kohort.fleet.tables import Run, small_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Positions = Mapping[str, Mapping[int, int]]

COUNTED_IN_PROCESS: Final = 128 << 20
"""Up to how many bytes of stored records are counted in this process, without Spark, in some seconds."""

SIDE_TABLES: Final[Mapping[Kind, Table]] = {"metrics": METRICS, "broker_log": STATE_CHANGES}
"""By kind of input, the table of its rows, which are no records."""

READ = Table("state", "read", (*DECODED.columns, "what string"), ("what", "day", "bucket"))
"""The decoded rows of a run until they are moved to their tables."""


class InputRows(NamedTuple):
    """The content of inputs: the frame of `bronze_reader.read`, rows of `topics`, and rows of other tables."""

    rows: DataFrame
    topics: Callable[[], Iterable[Mapping[str, Any]]] | None = None
    side_tables: tuple[tuple[Table, DataFrame], ...] = ()
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
    has_open: bool
    """Whether some commits belong to a transaction whose marker was not read."""


def read_inputs(spark: SparkSession, inputs: Sequence[Any], positions: Positions) -> InputRows:
    """Plan the reading of new records. Raises KafkaError when a cluster does not list its offsets."""
    kinds = {given.kind for given in inputs}
    side_tables = tuple(
        (table, read_beside(spark, inputs, kind, table)) for kind, table in SIDE_TABLES.items() if kind in kinds
    )
    rows = read(spark, inputs, positions)
    return InputRows(rows, lambda: topics(inputs, int(time.time() * 1000)), side_tables)


def write_bronze(spark: SparkSession, run: Run, read: InputRows) -> StoredBronze:
    """Store bronze and return the counts."""
    from pyspark.sql import functions as f

    what = f.when(f.col("reason").isNotNull(), "quarantine").when(f.col("next_offset").isNotNull(), "position")
    run.store(READ, read.rows.withColumn("what", what.otherwise("records")))
    positions = _positions(run)
    refused = _put_into_quarantine(run)
    side_rows = sum(_add_new(spark, run, table, rows) for table, rows in read.side_tables)
    if not _move_records(run):
        return StoredBronze(0, refused, side_rows, positions, frozenset(), False)
    files = sorted(run.directory(RECORDS).rglob("*.parquet"))
    is_small = sum(file.stat().st_size for file in files) <= COUNTED_IN_PROCESS
    found = tally(files) if is_small else tally_by_spark(spark, files)
    counts = _count(found, run)
    _put_topics(run, [*found.topic_rows(), *(() if read.topics is None else read.topics())])
    dense = _dense(counts, run, positions)
    return StoredBronze(sum(counts.values()), refused, side_rows, positions, dense, found.has_open)


def _read(run: Run, what: str) -> list[dict[str, Any]]:
    """Return the few stored rows that are not records."""
    return small_rows(sorted((run.directory(READ) / f"what={what}").rglob("*.parquet")), READ)


def _positions(run: Run) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for row in sorted(_read(run, "position"), key=itemgetter("next_offset")):
        found.setdefault(row["source"], {})[row["partition"]] = row["next_offset"]
    return found


def _put_into_quarantine(run: Run) -> int:
    place = itemgetter("source", "file", "partition", "position", "offset", "reason")
    known = {place(row) for row in run.small_rows(QUARANTINE)}
    today = datetime.now(UTC).date()
    new: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in _read(run, "quarantine"):
        if place(row) not in known:
            new.setdefault(place(row), row | {"day": today})
    if new:
        run.store_small(QUARANTINE, list(new.values()))
        run.adopt(QUARANTINE)
    return len(new)


def _add_new(spark: SparkSession, run: Run, table: Table, rows: DataFrame) -> int:
    """Add the rows that a table does not contain yet, and return their number.

    Rows are compared by position and content, because a rotated file has other content at the same position. The
    modification time of a file of metrics is not part of its content.
    """
    from pyspark.sql import functions as f

    place = ["source", "file", "position", "content"]
    content = f.xxhash64(*(name for name in table.names if table is not METRICS or name != "at_ms"))
    known = run.frame(spark, table).withColumn("content", content).select(*place)
    run.store(table, rows.withColumn("content", content).join(known, place, "left_anti"))
    count: int = run.written(spark, table).count()
    if count:
        run.adopt(table)
    else:
        run.discard(table)
    return count


def _move_records(run: Run) -> bool:
    """Move the records to their table; return whether there are any."""
    stored = run.directory(READ) / "what=records"
    if not stored.exists():
        return False
    place = run.directory(RECORDS)
    place.parent.mkdir(parents=True, exist_ok=True)
    stored.rename(place)
    run.adopt(RECORDS)
    return True


def _count(new: Tally, run: Run) -> dict[tuple[str, int], int]:
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
    """Keep one row for each topic, with the latest known values."""
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
