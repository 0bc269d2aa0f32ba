"""Kills at any moment of jobs that store into one table; `make interop` kills Spark applications that share a group."""

from __future__ import annotations

import pytest
from tests.spark.killing import kill_often
from tests.spark.lake import KINDS, lake_table, rows_in

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.parametrize("kind", KINDS)
def test_jobs_that_fence_and_are_killed_leave_each_number_once(kind, tmp_path):
    table = lake_table(kind, tmp_path, "numbers")

    def numbers() -> list[int]:
        return [row["id"] for row in rows_in(table)]

    assert kill_often(kind, str(tmp_path), "numbers", table, 4, numbers) > 4
