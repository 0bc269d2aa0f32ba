"""Spark without code of its own for each query: for a few rows, compiling it takes longer than the query does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def uncompiled(spark: SparkSession) -> Iterator[SparkSession]:
    """Let a session interpret its queries, and then do what it did."""
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, was in before.items():
        spark.conf.set(name, was)
