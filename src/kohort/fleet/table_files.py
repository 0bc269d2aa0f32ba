"""Parquet files of the fleet's tables: where tasks write them, and rows read from them by Spark or without it.

Spark reads files of a directory by itself. Files of an object store are read by its Python tasks, for which it needs no
jar. It knows no runs and no versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from kohort.fleet.schema import Table
from kohort.spark.tables.arrow_columns import fitted
from kohort.spark.tables.delta_files import DeltaFile, FilePlan, FileWriter
from kohort.spark.tables.delta_storage import DeltaPlan, DeltaStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_BYTES = 128 << 20
ROWS_AT_ONCE = 10_000


def plan_of(storage: DeltaStorage, table: Table) -> DeltaPlan:
    """Return how the files of a table are written; it travels to executors."""
    return DeltaPlan(storage, FilePlan(table.arrow(), table.partitioned_by, FILE_BYTES, "zstd"))


@contextmanager
def writer_of(plan: DeltaPlan) -> Iterator[FileWriter]:
    """Provide what one task writes with. Raises TableBroken."""
    with plan.storage.failures(), plan.writer() as files:
        yield files


def rows_of(
    storage: DeltaStorage, table: Table, files: Sequence[DeltaFile], columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a few files, with all columns or some."""
    places = storage.file_system() if files else None
    return [row for file in files for batch in _batches(places, table, file, columns) for row in batch.to_pylist()]


def frame_of(spark: SparkSession, storage: DeltaStorage, table: Table, files: Sequence[DeltaFile]) -> DataFrame:
    """Return the rows of files of a table with exactly its columns."""
    if not files:
        return spark.createDataFrame([], table.ddl)
    if "://" not in storage.uri:
        paths = [f"{storage.uri}/{file.path}" for file in files]
        return spark.read.schema(table.ddl).option("basePath", storage.uri).parquet(*paths).select(*table.names)
    tasks = min(len(files), 2 * spark.sparkContext.defaultParallelism)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        with storage.failures():
            places = storage.file_system()
            for file in (file for number in numbers for file in files[number::tasks]):
                yield from _batches(places, table, file)

    return spark.range(0, tasks, 1, tasks).mapInArrow(read, table.ddl)


def _batches(
    places: Any, table: Table, file: DeltaFile, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with a table's types; partition columns are in its log only."""
    schema = pa.schema([each for each in table.arrow() if columns is None or each.name in columns])
    values = {name: value for name, value in file.partition_values.items() if name in schema.names}
    with places.open_input_file(file.path) as opened:
        stored = parquet.ParquetFile(opened)
        wanted = [name for name in schema.names if name in stored.schema_arrow.names]
        for batch in stored.iter_batches(ROWS_AT_ONCE, columns=wanted):
            for name, value in values.items():
                constant = pa.scalar(value, pa.string()).cast(schema.field(name).type)
                batch = batch.append_column(name, pa.repeat(constant, batch.num_rows))
            yield from fitted(batch, schema).to_batches()
