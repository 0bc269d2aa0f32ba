"""What is counted over the files of bronze records, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from kohort.fleet.bronze.record_tally import Tally, tally
from kohort.fleet.schema import RECORDS


def tally_of(path: Path, *rows: dict[str, Any]) -> Tally:
    """Return what is counted of two files that hold these rows, the first one alone and all others."""
    plain = dict.fromkeys(RECORDS.names) | {"source": "a", "partition": 3, "tombstone": False}
    for number, part in enumerate((rows[:1], rows[1:])):
        table = pa.Table.from_pylist([plain | row for row in part], schema=RECORDS.arrow())
        parquet.write_table(table, path / f"{number}.parquet")
    return tally(sorted(path.glob("*.parquet")))


def test_counts_are_by_type_over_all_files(tmp_path: Path) -> None:
    found = tally_of(
        tmp_path,
        {"offset": 4, "record_type": 1},
        {"offset": 5, "record_type": 1, "tombstone": True},
        {"offset": 2, "record_type": 99},
        {"offset": 7, "record_type": None},
    )
    assert sorted(tuple(row.values()) for row in found.count_rows() if row["record_type"] is not None) == [
        ("a", 3, 1, "OffsetCommit", 2, 1, 5),
        ("a", 3, 99, "unknown", 1, 0, 2),
    ]
    assert [row["kind"] for row in found.count_rows() if row["record_type"] is None] == ["TransactionMarker"]


def test_a_commit_whose_transaction_has_not_ended_is_noticed(tmp_path: Path) -> None:
    assert not tally_of(tmp_path, {"offset": 0, "record_type": 1, "transaction": "committed"}).has_open
    assert tally_of(tmp_path, {"offset": 0, "record_type": 1}, {"offset": 1, "transaction": "open"}).has_open


def test_topics_are_named_by_commits_and_by_what_groups_keep_of_their_partitions(tmp_path: Path) -> None:
    share = {"initializedTopics": [{"topicId": "X", "topicName": "stock", "numPartitions": 4}], "deletingTopics": None}
    found = tally_of(
        tmp_path,
        {"offset": 0, "record_type": 1, "topic_id": "I", "topic": "orders"},
        {"offset": 1, "record_type": 1, "topic_id": "I", "topic": "orders"},
        {"offset": 2, "record_type": 1, "topic": "of no id"},
        {"offset": 3, "record_type": 15, "fields": json.dumps(share)},
        {"offset": 4, "record_type": 15, "tombstone": True},
    )
    topics = [(row["topic_id"], row["topic"], row["partitions"]) for row in found.topic_rows()]
    assert sorted(topics) == [("I", "orders", None), ("X", "stock", 4)]
