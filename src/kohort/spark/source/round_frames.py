"""A round's rows as a DataFrame: decoded here and handed to Spark when few, read by the executors when many.

Both ways give the same rows, columns and types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from kohort.spark.rows.arrow_columns import arrow_schema
from kohort.spark.rows.read_rows import read_rows_by_range
from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.rounds import OffsetRange
from kohort.spark.rows.spark_columns import spark_schema
from kohort.spark.source.data_source import read_ranges_as_frame
from kohort.spark.spark_session import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_on_driver(
    spark: SparkSession, settings: ReadSettings, ranges: Sequence[OffsetRange], most_bytes: int
) -> tuple[DataFrame, tuple[OffsetRange, ...]]:
    """Read ranges in this process and return their rows, with the ranges as far as `most_bytes` let them be read.

    Raises CorruptBatch, KafkaError.
    """
    batches: list[pa.RecordBatch] = []
    held = 0
    done = tuple(ranges)
    for each, rows in read_rows_by_range(settings, ranges):
        batches.append(rows)
        held += rows.nbytes
        if held >= most_bytes:
            cut = OffsetRange(each.partition, each.start, rows["offset"][-1].as_py() + 1)
            done = (*ranges[: ranges.index(each)], cut)
            break
    # One chunk, so that Spark makes one task of a small round and not one for every batch that was fetched.
    table = pa.Table.from_batches(batches, arrow_schema(settings.include_headers)).combine_chunks()
    return spark.createDataFrame(table, schema=spark_schema(settings.include_headers)), done


def frame_on_executors(spark: SparkSession, settings: ReadSettings, ranges: Sequence[OffsetRange]) -> DataFrame:
    """Return the rows of ranges, read by Spark's tasks when an action runs, in parallel."""
    return read_ranges_as_frame(spark, settings, ranges, parallelism(spark))
