"""The offsets of a stream as Spark keeps them."""

from __future__ import annotations

import json

import pytest

from kohort.model.ids import TopicPartition
from kohort.spark.membership.stream_offset import StreamOffset
from kohort.spark.rows.rounds import OffsetRange

FIRST, SECOND = TopicPartition("flights", 2), TopicPartition("flights", 10)
BATCH = StreamOffset("g", 4, 7, (OffsetRange(FIRST, 10, 20), OffsetRange(SECOND, 5, 5)))


def test_a_batch_comes_back_from_the_checkpoint_as_it_was() -> None:
    assert StreamOffset.from_json(json.loads(json.dumps(BATCH.to_json()))) == BATCH


def test_its_json_shows_where_each_owned_partition_is() -> None:
    assert BATCH.to_json() == {
        "version": 1,
        "group": "g",
        "batch": 4,
        "generation": 7,
        "from": {"flights": {"2": 10}},
        "topics": {"flights": {"2": 20, "10": 5}},
    }


def test_one_batch_has_one_text_so_that_spark_finds_it_equal_to_itself() -> None:
    again = StreamOffset.from_json(json.loads(json.dumps(BATCH.to_json())))
    assert json.dumps(again.to_json()) == json.dumps(BATCH.to_json())


def test_a_batch_reads_what_is_new_and_no_idle_partition() -> None:
    assert BATCH.ranges == (OffsetRange(FIRST, 10, 20),)
    assert StreamOffset("g").ranges == ()


@pytest.mark.parametrize(
    "foreign",
    [
        {"flights": {"0": 23}},
        {"version": 1, "group": "g", "batch": 1, "generation": 1, "from": {"flights": {"0": 1}}, "topics": {}},
        {"version": 1, "group": "g", "batch": "1", "generation": 1, "from": {}, "topics": {}},
        {"version": 1, "group": "g", "batch": 1, "generation": 1, "from": {}, "topics": {"flights": 3}},
    ],
)
def test_a_checkpoint_of_another_source_is_refused_with_what_to_do(foreign: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"was not written by format\('kohort'\).*new checkpointLocation"):
        StreamOffset.from_json(foreign)


def test_a_checkpoint_of_a_newer_kohort_says_so() -> None:
    with pytest.raises(ValueError, match="newer kohort"):
        StreamOffset.from_json(BATCH.to_json() | {"version": 2})
