"""Spark finds the format by itself, as it finds every module whose name begins with `pyspark_`."""

from __future__ import annotations

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
