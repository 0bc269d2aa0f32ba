"""Data files of Iceberg tables and what their manifests have of them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")

import pyarrow as pa
from tests.spark.lake import ArrowFrame, lake_table, step

from kohort.model.ids import TopicPartition

P = TopicPartition("flights", 0)


def test_minus_zero_and_zero_are_different_partitions(tmp_path: Path) -> None:
    """Readers take the value of the column from the manifest."""
    table = lake_table("iceberg", tmp_path, partition_by=["x"])
    values = [0.0, -0.0, float("nan"), None]
    table.append(ArrowFrame(pa.table({"x": pa.array(values, pa.float32())})), "g", {P: step(None, 4)})
    table.append(ArrowFrame(pa.table({"x": pa.array(values[::-1], pa.float32())})), "g", {P: step(4, 8)})
    files = [task.file for task in table.catalog.load_table(table.name).scan().plan_files()]
    assert sorted(str(each.partition[0]) for each in files) == sorted(map(str, values * 2))
    assert {each.record_count for each in files} == {1}
