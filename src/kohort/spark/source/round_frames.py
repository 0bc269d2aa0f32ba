"""A round's rows as a DataFrame or in Arrow: decoded in the driver if they are few, read by the executors if many.

Each way gives the same rows, columns and types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from kohort.client.consumer.range_reader import RangeReader
from kohort.spark.direct_rows import attach_parts, attach_table, columns_of
from kohort.spark.rows.read_rows import arrow_schema, read_rows, read_rows_by_range
from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.record_frames import spark_schema
from kohort.spark.rows.rounds import OffsetRange, Round, parts_of_round, ranges_to_json
from kohort.spark.rows.value_decoding import DecodedRows, decoded_schema
from kohort.spark.running_session import parallelism
from kohort.spark.source.data_source import make_known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table_on_driver(
    settings: ReadSettings, planned: Round, most_bytes: int, *, reader: RangeReader
) -> tuple[pa.Table, tuple[OffsetRange, ...], int]:
    """Read a round in this process and return its rows, with the ranges as far as `most_bytes` let them be read.

    The number is that of records in the dead-letter topic. Raises CorruptBatch, KafkaError, RegistryUnavailable.
    """
    batches: list[pa.RecordBatch] = []
    size = 0
    ranges = done = planned.ranges
    found = read_rows_by_range(settings, ranges, planned.topic_ids, reader=reader)
    with closing(found), DecodedRows(settings) as decoded:
        for each, rows, damage in found:
            batches.append(decoded.of(rows, damage))
            size += rows.nbytes
            if size >= most_bytes and not damage:  # a damaged batch ends somewhere behind its row
                cut = OffsetRange(each.partition, each.start, rows["offset"][-1].as_py() + 1)
                done = (*ranges[: ranges.index(each)], cut)
                break
    # One chunk, so that Spark makes one task of a small round and not one for every batch that was fetched.
    table = pa.Table.from_batches(batches, _schema(settings)).combine_chunks()
    return table, done, decoded.dead_letters


def frame_of(spark: SparkSession, settings: ReadSettings, table: pa.Table) -> DataFrame:
    """Return rows of this process as a DataFrame."""
    columns = spark_schema(settings.include_headers) if settings.decoding is None else columns_of(table.schema)
    return attach_table(spark.createDataFrame(table, schema=columns), table)


def table_on_executors(spark: SparkSession, settings: ReadSettings, planned: Round) -> pa.Table:
    """Return the rows of a round, read by Spark's tasks in parallel, in this process."""
    return frame_on_executors(spark, settings, planned).toArrow().cast(_schema(settings))


def frame_on_executors(spark: SparkSession, settings: ReadSettings, planned: Round) -> DataFrame:
    """Return the rows of a round, read by Spark's tasks when an action runs, in parallel."""
    make_known(spark)
    options: dict[str, str | int | bool] = {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "kafka.client.id": settings.client_id,
        "kafka.client.rack": settings.client_rack,
        "ranges": ranges_to_json(planned.ranges),
        "topicIds": json.dumps(dict(planned.topic_ids)),
        "minPartitions": parallelism(spark),
        "fetchBytes": settings.fetch_bytes,
        "isolationLevel": settings.isolation,
        "includeHeaders": settings.include_headers,
        "failOnDataLoss": settings.fail_on_data_loss,
    }
    if settings.decoding is not None:
        options |= {"decoding": settings.decoding.to_json(), "group.id": settings.group_id}
        if settings.dead_letter_topic:
            options["deadLetterTopic"] = settings.dead_letter_topic
    secured = {f"kafka.{name}": value for name, value in settings.properties.items()}
    frame = spark.read.format("kohort").options(**options, **secured).load()
    if settings.decoding is not None:
        return frame
    parts = parts_of_round(planned.ranges, parallelism(spark))
    return attach_parts(frame, partial(_read_part, settings, parts, planned.topic_ids), len(parts))


def _schema(settings: ReadSettings) -> pa.Schema:
    return decoded_schema(arrow_schema(settings.include_headers), settings)


def _read_part(
    settings: ReadSettings, parts: Sequence[Sequence[OffsetRange]], topic_ids: Mapping[str, str], part: int
) -> Iterator[pa.RecordBatch]:
    return read_rows(settings, parts[part], topic_ids)
