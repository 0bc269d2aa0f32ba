"""Tables that Spark's own Delta and Iceberg read, filter, write, delete from and compact, beside our commits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from interop.spark_versions import OLDEST, python_with

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.timeout(1200), pytest.mark.spark]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_spark_with_its_own_jar_shares_a_table_with_us(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("deltalake" if kind == "delta" else "pyiceberg")
    outcome = subprocess.run(
        [python_with(OLDEST), "-m", "tests.interop.lake_by_spark", kind, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr[-6000:]
