"""Counts over the records that a run stored: records per type, open transactions, names of topics.

A small fleet is counted by pyarrow in one pass over a few columns, because Spark jobs would take longer than the
reading did. A large one is counted by two Spark jobs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.fleet.schema import COUNTS, TOPICS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ROWS: Final = 1 << 18
_COUNTED: Final = ("source", "partition", "record_type", "offset", "tombstone", "transaction", "topic_id", "topic")
_LISTS: Final = ("topics", "initializingTopics", "initializedTopics", "deletingTopics")
_TYPES_WITH_TOPICS: Final = (4, 15)
"""Record types whose values contain topic ids with their names."""
_NAMED: Final = "source string, topic_id string, topic string, partitions int"


@dataclass(slots=True)
class Tally:
    """Counts over bronze `records`."""

    counts: dict[tuple[str, int, int | None], tuple[int, int, int]] = field(default_factory=dict)
    """By source, partition and record type: records, tombstones among them, and the last offset."""
    has_open: bool = False
    """Whether some commits belong to a transaction whose marker was not read."""
    topics: dict[tuple[str, str, str], int | None] = field(default_factory=dict)
    """By source, topic id and name: the number of partitions according to a record."""

    def count_rows(self) -> list[dict[str, Any]]:
        """Return rows of bronze `counts`."""
        return [
            dict(zip(COUNTS.names, (*key[:2], key[2], _kind(key[2]), *found), strict=True))
            for key, found in self.counts.items()
        ]

    def topic_rows(self) -> list[dict[str, Any]]:
        """Return rows of bronze `topics`."""
        return [
            dict.fromkeys(TOPICS.names)
            | {"source": source, "topic_id": topic_id, "topic": topic, "partitions": partitions}
            for (source, topic_id, topic), partitions in self.topics.items()
        ]


def tally(files: Iterable[Path]) -> Tally:
    """Count the rows of files of bronze `records`."""
    import pyarrow as pa
    from pyarrow import parquet

    found = Tally()
    for path in files:
        file = parquet.ParquetFile(path)
        types = set()
        for batch in file.iter_batches(_ROWS, columns=list(_COUNTED)):
            types |= _count(pa.Table.from_batches([batch]), found)
        if types.intersection(_TYPES_WITH_TOPICS):
            wanted = [("record_type", "in", _TYPES_WITH_TOPICS)]
            named_by_values = parquet.read_table(path, columns=["source", "fields"], filters=wanted, partitioning=None)
            for row in named_by_values.to_pylist():
                _name_topics(row["source"], row["fields"], found)
    return found


def _count(rows: Any, found: Tally) -> set[int | None]:
    from pyarrow import compute

    by_type = rows.group_by(["source", "partition", "record_type"]).aggregate(
        [("offset", "count"), ("tombstone", "sum"), ("offset", "max")]
    )
    for row in by_type.to_pylist():
        key = row["source"], row["partition"], row["record_type"]
        known = found.counts.get(key, (0, 0, -1))
        last = max(known[2], row["offset_max"])
        found.counts[key] = known[0] + row["offset_count"], known[1] + (row["tombstone_sum"] or 0), last
    found.has_open |= bool(compute.any(compute.equal(rows["transaction"], "open")).as_py())
    named = rows.filter(compute.is_valid(rows["topic_id"]))
    for row in named.group_by(["source", "topic_id", "topic"]).aggregate([]).to_pylist():
        found.topics.setdefault((row["source"], row["topic_id"], row["topic"]), None)
    return set(by_type["record_type"].to_pylist())


def _name_topics(source: str, fields: str | None, found: Tally) -> None:
    value: Mapping[str, Any] = json.loads(fields) if fields else {}
    for each in (each for name in _LISTS for each in value.get(name) or ()):
        if each.get("topicId") and each.get("topicName"):
            key = source, each["topicId"], each["topicName"]
            partitions = [known for known in (found.topics.get(key), each.get("numPartitions")) if known is not None]
            found.topics[key] = max(partitions, default=None)


def tally_by_spark(records: DataFrame) -> Tally:
    """Count a frame of bronze `records` with Spark."""
    from pyspark.sql import functions as f

    found = Tally()
    counted = records.groupBy("source", "partition", "record_type").agg(
        f.count("*").alias("records"),
        f.count_if("tombstone").alias("tombstones"),
        f.max("offset").alias("last"),
        f.count_if(f.col("transaction") == "open").alias("open"),
    )
    for row in counted.collect():
        found.counts[row["source"], row["partition"], row["record_type"]] = (
            row["records"],
            row["tombstones"],
            row["last"],
        )
        found.has_open |= row["open"] > 0
    by_commits = records.where("topic_id IS NOT NULL").select(
        "source", "topic_id", "topic", f.lit(None).cast("int").alias("partitions")
    )
    named_by_values = records.where(f.col("record_type").isin(*_TYPES_WITH_TOPICS)).select("source", "fields")
    named = by_commits.unionByName(named_by_values.mapInArrow(_naming, _NAMED))
    for row in named.groupBy("source", "topic_id", "topic").agg(f.max("partitions").alias("partitions")).collect():
        found.topics[row["source"], row["topic_id"], row["topic"]] = row["partitions"]
    return found


def _naming(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the topics that are named in record values."""
    import pyarrow as pa

    kinds = (("source", pa.string()), ("topic_id", pa.string()), ("topic", pa.string()), ("partitions", pa.int32()))
    for batch in batches:
        found = Tally()
        for row in batch.to_pylist():
            _name_topics(row["source"], row["fields"], found)
        rows = [dict(zip(dict(kinds), (*key, count), strict=True)) for key, count in found.topics.items()]
        yield pa.RecordBatch.from_pylist(rows, schema=pa.schema(kinds))


def _kind(record_type: int | None) -> str:
    from kohort.fleet.decode.value_json import kinds

    return "TransactionMarker" if record_type is None else kinds().get(record_type, "unknown")
