"""Counts over the records that a run stores: records per type, open transactions, names of topics.

Tasks count what they store, so that nothing is read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute

from kohort.fleet.schema import COUNTS

_LISTS: Final = ("topics", "initializingTopics", "initializedTopics", "deletingTopics")
_TYPES_WITH_TOPICS: Final = (4, 15)
"""Record types whose values contain topic ids with their names."""


@dataclass(slots=True)
class Tally:
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

    def add(self, other: Tally) -> None:
        """Add the counts over other files."""
        for key, counts in other.counts.items():
            self.add_count(key, *counts)
        self.has_open |= other.has_open
        for name, partitions in other.topics.items():
            self.add_topic(name, partitions)

    def count_rows(self) -> list[dict[str, Any]]:
        """Return rows of bronze `counts`."""
        return [
            dict(zip(COUNTS.names, (*key, _kind(key[2]), *found), strict=True)) for key, found in self.counts.items()
        ]

    def topic_rows(self) -> list[dict[str, Any]]:
        """Return rows of bronze `topics`."""
        return [
            {"source": source, "topic_id": topic_id, "topic": topic, "partitions": partitions}
            for (source, topic_id, topic), partitions in self.topics.items()
        ]


def count(rows: pa.Table, found: Tally) -> None:
    """Add rows of bronze `records` to a tally."""
    by_type = rows.group_by(["source", "partition", "record_type"]).aggregate(
        [("offset", "count"), ("tombstone", "sum"), ("offset", "max")]
    )
    for row in by_type.to_pylist():
        key = row["source"], row["partition"], row["record_type"]
        found.add_count(key, row["offset_count"], row["tombstone_sum"] or 0, row["offset_max"])
    found.has_open |= bool(compute.any(compute.equal(rows["transaction"], "open")).as_py())
    named = rows.filter(compute.is_valid(rows["topic_id"]))
    for row in named.group_by(["source", "topic_id", "topic"]).aggregate([]).to_pylist():
        found.add_topic((row["source"], row["topic_id"], row["topic"]), None)
    if any(each in _TYPES_WITH_TOPICS for each in by_type["record_type"].to_pylist()):
        wanted = compute.is_in(rows["record_type"], pa.array(_TYPES_WITH_TOPICS, pa.int32()))
        for row in rows.filter(wanted).select(["source", "fields"]).to_pylist():
            _name_topics(row["source"], row["fields"], found)


def _name_topics(source: str, fields: str | None, found: Tally) -> None:
    value: Mapping[str, Any] = json.loads(fields) if fields else {}
    for each in (each for name in _LISTS for each in value.get(name) or ()):
        if each.get("topicId") and each.get("topicName"):
            found.add_topic((source, each["topicId"], each["topicName"]), each.get("numPartitions"))


def _kind(record_type: int | None) -> str:
    from kohort.fleet.decode.value_json import kinds

    return "TransactionMarker" if record_type is None else kinds().get(record_type, "unknown")
