"""Parquet files of an Iceberg table, as tasks write and merges read them: by the field ids of its metadata.

pyiceberg's own reader and writer make null arrays and maps of structs empty ones, and its writer filters rows into
partitions by equality, which loses those of NaN. Of it are taken the transforms, the places of files, the metrics out
of a footer, and the positions of deleted rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from kohort.model.extras import install_command
from kohort.spark.tables.arrow_columns import loosened
from kohort.spark.tables.delta_files import FileWriter, Floats, directory, grouped
from kohort.spark.tables.table import SchemaMismatch, TableBroken

try:
    import pyiceberg
    from pyiceberg.conversions import to_bytes
    from pyiceberg.io import FileIO, load_file_io
    from pyiceberg.io import pyarrow as parquet
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.schema import visit_with_partner
    from pyiceberg.table import TableProperties
    from pyiceberg.table.locations import load_location_provider
    from pyiceberg.typedef import Record
    from pyiceberg.utils.properties import property_as_int
except ImportError:
    pyiceberg = None
    FileIO = Any
else:

    class _Projection(parquet.ArrowProjectionVisitor):  # type: ignore[misc]  # read without its types
        """The columns of a file in those of a table; nulls stay null."""

        def list(self, kind: Any, values: Any, items: Any) -> Any:
            """Return an array of lists."""
            made = super().list(kind, values, items)
            if made is None or not values.null_count:
                return made
            return type(made).from_arrays(made.offsets, made.values, type=made.type, mask=values.is_null())

        def map(self, kind: Any, values: Any, keys: Any, items: Any) -> Any:
            """Return an array of maps."""
            made = super().map(kind, values, keys, items)
            if made is None or not values.null_count:
                return made
            return pa.MapArray.from_arrays(made.offsets, made.keys, made.items, type=made.type, mask=values.is_null())


np: Any = numpy

Values = tuple[Any, ...]
"""The partition values of a file, as Iceberg stores them: dates and times are whole numbers."""


class PyicebergMissing(ImportError):
    """pyiceberg is not installed; the text has the command that installs it."""


def require_pyiceberg() -> None:
    """Raise PyicebergMissing, naming the command to run, unless pyiceberg is installed."""
    if pyiceberg is None:
        raise PyicebergMissing(f"pyiceberg is not installed: {install_command('iceberg')}")


def require_partitionable(columns: Iterable[pa.Field], table: str) -> None:
    """Raise SchemaMismatch, naming the first partition column whose values the library does not read as they are.

    pyiceberg 0.12 reads partition values that are doubles as floats, and writes them so when it copies a manifest.
    """
    for each in columns:
        if pa.types.is_float64(each.type):
            raise SchemaMismatch(
                f"{table} cannot be partitioned by {each.name}, {each.type}: pyiceberg reads other values than were"
                f" written; partition by another column, such as CAST({each.name} AS decimal(20, 6))"
            )


@dataclass(frozen=True, slots=True)
class IcebergPlan:
    """How data files are written. `properties` are those of the storage, which may contain secrets."""

    metadata: Any
    properties: Mapping[str, str]
    location: str
    schema: pa.Schema

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[Any]:
        """Write rows into new data files, and return them. If that fails, its files are removed as far as possible."""
        places = _Places(load_file_io(dict(self.properties), self.location))
        return FileWriter(_Files(self.metadata, self.schema), places).write(batches)


@dataclass(frozen=True, slots=True)
class _Places:
    """The storage of a table, with the two names by which a writer knows one."""

    storage: FileIO

    def open_output_stream(self, path: str) -> Any:
        return self.storage.new_output(path).create()

    def delete_file(self, path: str) -> None:
        self.storage.delete(path)


@dataclass(frozen=True)
class _Files:
    """The files of a table by its metadata."""

    metadata: Any
    schema: pa.Schema

    @cached_property
    def stored(self) -> pa.Schema:
        """What a file has: all columns, with their ids."""
        return loosened(parquet.schema_to_pyarrow(self.metadata.schema(), include_field_ids=True))

    @cached_property
    def target_bytes(self) -> int:
        return int(
            property_as_int(
                self.metadata.properties,
                TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
                TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
            )
            or TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
        )

    @cached_property
    def options(self) -> Mapping[str, Any]:
        return {**parquet._get_parquet_writer_kwargs(self.metadata.properties), "store_decimal_as_integer": True}

    def parts(self, rows: pa.Table) -> Iterator[tuple[Values, pa.Table]]:
        """Yield the rows of each combination of partition values."""
        schema, keys = self.metadata.schema(), []
        for field in self.metadata.spec().fields:
            column = parquet._get_field_from_arrow_table(rows, schema.find_column_name(field.source_id))
            key = field.transform.pyarrow_transform(schema.find_field(field.source_id).field_type)(column)
            if pa.types.is_temporal(key.type):  # Python has no year 10000
                key = key.cast(pa.int32() if pa.types.is_date32(key.type) else pa.int64())
            keys.append(key)
        for scalars, part in grouped(rows, keys):
            values = tuple(each.as_py() for each in scalars)
            self._require_readable(values)
            yield values, part

    def _require_readable(self, values: Values) -> None:
        """Raise TableBroken for a partition value that the library can put into no manifest."""
        spec = self.metadata.spec()
        for field, kind, value in zip(
            spec.fields, spec.partition_type(self.metadata.schema()).fields, values, strict=True
        ):
            try:
                field.transform.to_human_string(kind.field_type, value)
            except OverflowError as error:
                raise TableBroken(
                    f"the partition value {value} of {field.name} was refused: readers of Iceberg take the years 1 to"
                    " 9999 there. Correct it, or partition by another column"
                ) from error

    def path(self, values: Values) -> str:
        """Return the place of a new file."""
        named = {field.name: at for field, at in zip(self.metadata.spec().fields, values, strict=True)}
        places = load_location_provider(self.metadata.location, self.metadata.properties)
        return str(places.new_data_location(f"{uuid.uuid4()}.parquet", _Directory(named) if named else None))

    def described(self, path: str, values: Values, size: int, footer: Any, floats: Floats) -> DataFile:
        """Return what the table's metadata have of a file."""
        schema = self.metadata.schema()
        ids = parquet.parquet_path_to_id_mapping(schema)
        metrics = parquet.compute_statistics_plan(schema, self.metadata.properties)
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for column in map(group.column, range(footer.num_columns)):
                at = ids[column.path_in_schema]
                if column.physical_type in ("FLOAT", "DOUBLE"):  # the file has no statistics of it
                    metrics[at] = replace(metrics[at], mode=parquet.MetricsMode(parquet.MetricModeTypes.NONE))
                try:
                    if column.is_stats_set:
                        _ = column.statistics.min, column.statistics.max
                except OverflowError:  # a year that Python has not: counts only
                    metrics[at] = replace(metrics[at], mode=parquet.MetricsMode(parquet.MetricModeTypes.COUNTS))
        counts = parquet.data_file_statistics_from_parquet_metadata(footer, metrics, ids).to_serialized_dict()
        for names, (nulls, low, high) in floats.items():
            field = schema.find_field(".".join(names))
            counts["value_counts"][field.field_id] = footer.num_rows
            counts["null_value_counts"][field.field_id] = nulls
            if high is not None and not isnan(high):
                counts["lower_bounds"][field.field_id] = to_bytes(field.field_type, low)
                counts["upper_bounds"][field.field_id] = to_bytes(field.field_type, high)
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(*values),
            file_size_in_bytes=size,
            sort_order_id=None,
            spec_id=self.metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **counts,
        )


@dataclass(frozen=True, slots=True)
class _Directory:
    """The directory of a partition, as the library asks for one; no reader takes values from it."""

    values: Mapping[str, Any]

    def to_path(self) -> str:
        return directory({name: None if at is None else str(at) for name, at in self.values.items()}).rstrip("/")


def rows_of_file(table: Any, task: Any, wanted: Any) -> pa.Table:
    """Return the rows of a data file that are not deleted, in the columns of a schema."""
    metadata, path = table.metadata, task.file.file_path
    with table.io.new_input(path).open() as stream, pq.ParquetFile(stream) as file:
        there = parquet.pyarrow_to_schema(file.schema_arrow, metadata.name_mapping(), True)
        rows = file.read([each.name for each in there.fields if each.field_id in wanted.field_ids])
    spec = metadata.specs()[task.file.spec_id]
    missing = parquet._get_column_projection_values(task.file, wanted, metadata.schema(), spec, there.field_ids)
    visitor = _Projection(there, True, projected_missing_fields=missing, allow_timestamp_tz_mismatch=True)
    found = visit_with_partner(wanted, rows, visitor, parquet.ArrowAccessor(there))
    deleted = parquet._read_all_delete_files(table.io, [task]).get(path, [])
    is_left = np.ones(rows.num_rows, bool)
    for positions in deleted:
        is_left[positions.to_numpy()] = False
    return pa.Table.from_struct_array(found).filter(pa.array(is_left))
