"""A Delta table that Delta's own Spark reads, filters, writes, deletes from and compacts, beside our commits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from interop.spark_versions import OLDEST, python_with

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.timeout(1200), pytest.mark.spark]


def test_spark_with_deltas_jar_shares_a_table_with_us(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    outcome = subprocess.run(
        [python_with(OLDEST), "-m", "tests.interop.lake_by_spark", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr[-6000:]
