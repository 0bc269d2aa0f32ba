"""Tasks of a round: the partition of each row, and what stops one that writes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kohort.client.producer.accumulator import NO_PRODUCER_ID
from kohort.client.producer.partitioner import partition_for_key
from kohort.spark.topics.task_writer import TargetPartitions, write
from kohort.spark.topics.write_plan import WritePlan

PLAN = WritePlan(
    "alerts",
    4,
    "job",
    NO_PRODUCER_ID,
    2,
    {},
    {"bootstrap_servers": "127.0.0.1:1"},
    {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere/ca.pem", "ssl.truststore.type": "PEM"},
)


def test_a_certificate_that_is_missing_on_its_machine_is_named() -> None:
    with pytest.raises(ValueError, match=r"/nowhere/ca\.pem does not exist"):
        write(PLAN, iter([pa.RecordBatch.from_pydict({"target": [0]})]))


def test_a_task_without_rows_connects_to_nothing() -> None:
    empty = pa.RecordBatch.from_pydict({"target": pa.array([], pa.int32())})
    assert not write(PLAN, iter([empty, empty]))


def targets(keys: list[bytes | None], partitions: list[int | None], of: int = 4, first: int = 0) -> list[int]:
    rows = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.nulls(len(keys), pa.binary()),
            "headers": pa.nulls(len(keys)),
            "partition": pa.array(partitions, pa.int32()),
        }
    )
    (placed,) = TargetPartitions(of, first, partition_for_key)(iter([rows]))
    assert placed.schema.names == ["key", "value", "headers", "target"]
    return placed["target"].to_pylist()


def test_a_rows_own_partition_comes_before_its_key_and_rows_without_both_take_turns():
    key = partition_for_key(b"k", 4)
    assert targets([b"k", b"k", None, None, None], [None, 2, None, None, 1], first=3) == [key, 2, 3, 0, 1]


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_partition_that_does_not_exist_is_refused(wrong):
    with pytest.raises(ValueError, match=f"a row's partition is {wrong}: the topic has partitions 0 to 3"):
        targets([None], [wrong])
