"""Kills at any moment of jobs that store into one table; `make interop` kills Spark applications that share a group."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from tests.spark.killing import kill_often

from kohort.spark.tables import ManifestTable

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_jobs_that_fence_and_are_killed_leave_each_number_once_in_a_manifest_table(tmp_path):
    table = ManifestTable(tmp_path / "numbers")

    def numbers() -> list[int]:
        paths = [table.path / each.path for each in table.files]
        return [number for path in paths for number in pq.read_table(path)["id"].to_pylist()]

    assert kill_often("manifest", str(tmp_path), "numbers", table, 4, numbers) > 4
    alive = {(table.path / each.path).parent for each in table.files}
    dead = set((table.path / "rows").iterdir()) - alive
    assert table.vacuum(older_than_s=-60).directories == len(dead)
    assert set((table.path / "rows").iterdir()) == alive
