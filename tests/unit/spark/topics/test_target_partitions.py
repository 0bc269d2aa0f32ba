"""Which partition each row is written to."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")

from kohort.client.producer.partitioner import partition_for_key  # noqa: E402
from kohort.spark.topics.target_partitions import TargetPartitions  # noqa: E402


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
