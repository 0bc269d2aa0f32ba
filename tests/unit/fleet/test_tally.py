"""What is counted over bronze records."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from kohort.fleet.bronze import TopicTally, count
from kohort.fleet.schema import RECORDS


def tally_of(*rows: dict[str, Any]) -> TopicTally:
    """Return what two tasks count of these rows, the first one alone and all others."""
    plain = dict.fromkeys(RECORDS.names) | {"source": "a", "partition": 3, "tombstone": False}
    found = TopicTally()
    for part in (rows[:1], rows[1:]):
        counted = TopicTally()
        count(pa.Table.from_pylist([plain | row for row in part], schema=RECORDS.arrow()), counted)
        found.add(counted)
    return found


def test_counts_are_by_type_over_all_tasks() -> None:
    found = tally_of(
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


def test_a_commit_whose_transaction_has_not_ended_is_noticed() -> None:
    assert not tally_of({"offset": 0, "record_type": 1, "transaction": "committed"}).has_open
    assert tally_of({"offset": 0, "record_type": 1}, {"offset": 1, "transaction": "open"}).has_open


def test_topics_are_named_by_commits_and_by_what_groups_store_of_their_partitions() -> None:
    share = {"initializedTopics": [{"topicId": "X", "topicName": "stock", "numPartitions": 4}], "deletingTopics": None}
    found = tally_of(
        {"offset": 0, "record_type": 1, "topic_id": "I", "topic": "orders"},
        {"offset": 1, "record_type": 1, "topic_id": "I", "topic": "orders"},
        {"offset": 2, "record_type": 1, "topic": "of no id"},
        {"offset": 3, "record_type": 15, "fields": json.dumps(share)},
        {"offset": 4, "record_type": 15, "tombstone": True},
    )
    topics = [(row["topic_id"], row["topic"], row["partitions"]) for row in found.topic_rows()]
    assert sorted(topics) == [("I", "orders", None), ("X", "stock", 4)]
