"""Parquet files of the fleet's tables: where tasks write them, and rows read from them.

They are read through the storage that their Delta table has, with the partition values of its log. It knows no runs and
no versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyarrow import dataset, fs, parquet

from kohort.fleet.schema import Table
from kohort.spark.tables.arrow_columns import fitted
from kohort.spark.tables.delta_files import DeltaFile, FilePlan, FileWriter
from kohort.spark.tables.delta_storage import DeltaPlan, DeltaStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_BYTES = 128 << 20
ROWS_AT_ONCE = 10_000


class StoredRows(NamedTuple):
    """The rows of files of a table, which may lie in several places; it travels to executors."""

    table: Table
    files: tuple[tuple[DeltaStorage, tuple[DeltaFile, ...]], ...]

    def dataset(self) -> Any:
        """Return them for a query, which reads what it needs."""
        schema, layout = self.table.arrow(), dataset.ParquetFileFormat()
        found = []
        for storage, files in self.files:
            places = _places(storage) if files else None
            found += [layout.make_fragment(file.path, places, _values(schema, file)) for file in files]
        if not found:
            return dataset.dataset(schema.empty_table())
        return dataset.FileSystemDataset(found, schema, layout)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield them file by file, with all columns or some."""
        for storage, files in self.files:
            places = _places(storage) if files else None
            for file in files:
                yield from _batches(places, self.table, file, columns)


def _places(storage: DeltaStorage) -> Any:
    """Return the file system whose root is a table; of a directory Arrow's own is the faster one."""
    return storage.file_system() if "://" in storage.uri else fs.SubTreeFileSystem(storage.uri, fs.LocalFileSystem())


def _values(schema: pa.Schema, file: DeltaFile) -> Any:
    """Return what is true of all rows of a file: the values of its partition."""
    found = None
    for name, value in file.partition_values.items():
        this = dataset.field(name) == pa.scalar(value, pa.string()).cast(schema.field(name).type)
        found = this if found is None else found & this
    return found


def plan_of(storage: DeltaStorage, table: Table) -> DeltaPlan:
    """Return how the files of a table are written; it travels to executors."""
    return DeltaPlan(storage, FilePlan(table.arrow(), table.partitioned_by, FILE_BYTES, "zstd"))


@contextmanager
def writer_of(plan: DeltaPlan) -> Iterator[FileWriter]:
    """Provide what one task writes with. Raises TableBroken."""
    with plan.storage.failures(), plan.writer() as files:
        yield files


def frame_of(spark: SparkSession, rows: StoredRows) -> DataFrame:
    """Return rows as a DataFrame with exactly the columns of the table, read by Spark's Python tasks: without a jar."""
    table = rows.table
    single = [StoredRows(table, ((storage, (file,)),)) for storage, files in rows.files for file in files]
    if not single:
        return spark.createDataFrame([], table.ddl)
    tasks = min(len(single), 2 * spark.sparkContext.defaultParallelism)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        for each in (each for number in numbers for each in single[number::tasks]):
            ((storage, _),) = each.files
            with storage.failures():
                yield from each.batches()

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
