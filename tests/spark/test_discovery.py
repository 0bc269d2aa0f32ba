"""Spark finds the format by itself, as it finds every module whose name begins with `pyspark_`."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest
from pyspark.sql.datasource import DataSource

pytestmark = pytest.mark.spark


def test_spark_finds_the_format_where_kohort_is_installed() -> None:
    """As pyspark.sql.worker.lookup_data_sources does; examples/spark_moved_query.py relies on it."""
    found = [import_module(each.name) for each in iter_modules() if each.name.startswith("pyspark_")]
    sources = {each.DefaultSource.name(): each.DefaultSource for each in found if hasattr(each, "DefaultSource")}
    assert issubclass(sources["kohort"], DataSource)


@pytest.mark.parametrize(
    ("module", "foreign"),
    [
        ("pyspark_kohort", {"asyncio", "kohort.client", "kohort.spark.options.source_options", "numpy", "pyarrow"}),
        ("kohort.spark.options.source_options", {"asyncio", "kohort.client.cluster.cluster", "numpy", "pyarrow"}),
        ("kohort.spark.source.stream_reader", {"asyncio", "kohort.client.cluster.cluster", "numpy", "pyarrow"}),
        ("kohort.spark.membership.stream_member", {"numpy", "pyarrow"}),
        ("kohort.spark.rows.read_rows", {"kohort.client.membership.membership", "numba"}),
    ],
)
def test_a_process_of_the_source_imports_only_what_it_answers_with(module: str, foreign: set[str]) -> None:
    """Spark starts one for each question, before the first row of a query."""
    program = f"import {module}, sys; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(shown.stdout.split()) & foreign == set()
