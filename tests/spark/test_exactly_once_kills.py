"""Kills at any moment: of jobs that store into one table, and of Spark applications that share a group."""

from __future__ import annotations

from collections import Counter

import pyarrow.parquet as pq
import pytest
from tests.spark.killing import kill_often, kill_streams

from kohort.spark.tables import ManifestTable

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_jobs_that_fence_and_are_killed_leave_each_number_once_in_a_manifest_table(tmp_path):
    table = ManifestTable(tmp_path / "numbers")

    def numbers() -> list[int]:
        paths = [table.path / each.path for each in table.files]
        return [number for path in paths for number in pq.read_table(path)["id"].to_pylist()]

    assert kill_often("manifest", str(tmp_path), "numbers", table, 8, numbers) > 8
    alive = {(table.path / each.path).parent for each in table.files}
    dead = set((table.path / "rows").iterdir()) - alive
    assert table.vacuum(older_than_s=-60).directories == len(dead)
    assert set((table.path / "rows").iterdir()) == alive


def test_spark_applications_that_share_a_group_and_are_killed_leave_each_record_once(topic, tmp_path):
    table = ManifestTable(tmp_path / "flights")
    written = kill_streams(topic, "manifest", str(tmp_path), "flights", table, 2)
    places: Counter[tuple[int, int]] = Counter()
    for each in table.files:
        rows = pq.read_table(table.path / each.path).to_pydict()
        places.update(zip(rows["partition"], rows["offset"], strict=True))
    ends = {partition.partition: held.offset for partition, held in table.held(topic.group_id).items()}
    assert places == Counter((partition, offset) for partition, end in ends.items() for offset in range(end))
    assert places.total() == written
