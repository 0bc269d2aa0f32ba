"""Parquet files of a Delta table, as tasks write them: by partition, in the size wanted, with Delta's statistics.

The files are no rows of the table before a commit adds them. Their names are new, so that nothing is overwritten.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isfinite, isnan, nan
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kohort.spark.tables.arrow_columns import fitted, loosened
from kohort.spark.tables.table import SchemaMismatch, TableBroken

BUFFERED_BYTES = 64 << 20
"""Bytes that one task buffers before it writes a row group."""

STATISTICS_COLUMNS = 32
"""How many columns have statistics, as with Delta's own writers."""

SAMPLED_ROWS = 10_000
"""How many rows show whether the values of a column repeat."""

LONGEST_BOUND = 64
"""Of a longer text, this many characters are its bound."""

_LAST = "\U0010ffff"
"""The last character: it is in no text."""

_YEARS = re.compile(r"(?!0000)\d{4}-")

NULL = "__HIVE_DEFAULT_PARTITION__"
"""How Hive names the directory of a partition whose value is null."""

Values = tuple[str | None, ...]
"""The partition values of a file, as Delta writes them."""

Floats = dict[tuple[str, ...], tuple[int, float | None, float | None]]
"""How many nulls, and which bounds, columns of floating point have in a file, by the names to one in structs."""


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A file that was written, with the fields of its add action."""

    path: str
    size: int
    partition_values: Mapping[str, str | None]
    modification_time: int
    stats: str

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(json.loads(self.stats)["numRecords"])


@dataclass(frozen=True, slots=True)
class FilePlan:
    """How a table's files are written."""

    schema: pa.Schema
    partition_by: tuple[str, ...]
    target_bytes: int
    compression: str = "snappy"

    @property
    def stored(self) -> pa.Schema:
        """What a file has: all columns but those whose values its directory has."""
        return loosened(pa.schema([each for each in self.schema if each.name not in self.partition_by]))

    @property
    def options(self) -> Mapping[str, Any]:
        """How Parquet is written."""
        return {"compression": self.compression}

    def parts(self, rows: pa.Table) -> Iterator[tuple[Values, pa.Table]]:
        """Yield the rows of each combination of partition values. Raises TableBroken."""
        return by_partition(rows, self.partition_by)

    def path(self, values: Values) -> str:
        """Return the place of a new file, below the table."""
        return f"{directory(self._named(values))}part-{uuid.uuid4()}.{self.compression}.parquet"

    def described(self, path: str, values: Values, size: int, footer: Any, floats: Floats) -> DeltaFile:
        """Return what the table's log has of a file."""
        stats = _as_json(statistics(footer, self.stored, floats))
        return DeltaFile(path, size, self._named(values), time.time_ns() // 1_000_000, stats)

    def _named(self, values: Values) -> dict[str, str | None]:
        return dict(zip(self.partition_by, values, strict=True))


class Files(Protocol):
    """How the files of a table are written, whatever its format: those of Delta, and those of Iceberg."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def stored(self) -> pa.Schema: ...
    @property
    def target_bytes(self) -> int: ...
    @property
    def options(self) -> Mapping[str, Any]: ...
    def parts(self, rows: pa.Table) -> Iterator[tuple[Any, pa.Table]]: ...
    def path(self, values: Any) -> str: ...
    def described(self, path: str, values: Any, size: int, footer: Any, floats: Floats) -> Any: ...


class FileWriter:
    """The files of one table that one task writes; a block that fails removes them as far as possible."""

    def __init__(self, plan: Files, places: Any) -> None:
        self._plan = plan
        self._places = places
        self._open: dict[str, _File] = {}
        self._done: list[Any] = []
        self._buffered = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._abandon()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows, which are written when enough are there."""
        if not batch.num_rows:
            return
        for values, part in self._plan.parts(fitted(batch, self._plan.schema)):
            key = repr(values)  # -0.0 equals 0.0, and is another value
            if key not in self._open:
                self._open[key] = _File(self._plan, self._places, values)
            self._open[key].buffer(part)
            self._buffered += part.nbytes
        while self._buffered >= min(BUFFERED_BYTES, self._plan.target_bytes):
            key, largest = max(self._open.items(), key=lambda each: each[1].buffered)
            self._buffered -= largest.buffered
            if largest.flush() >= self._plan.target_bytes:
                self._done.append(largest.close())
                del self._open[key]

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[Any]:
        """Write rows into new files, and return them. If that fails, they are removed as far as possible."""
        with self:
            for batch in batches:
                self.add(batch)
            return self.close()

    def close(self) -> list[Any]:
        """Write what is left, and return the files."""
        self._done += [each.close() for each in self._open.values()]
        self._open.clear()
        return self._done

    def _abandon(self) -> None:
        for path in [_path_of(each) for each in self._done] + [each.abandoned() for each in self._open.values()]:
            with suppress(Exception):  # what made the block fail is the error to raise
                self._places.delete_file(path)


class _File:
    """One file that is being written."""

    def __init__(self, plan: Files, places: Any, values: Any) -> None:
        self.buffered = 0
        self._plan, self._values = plan, values
        self._schema = plan.stored
        self._path = plan.path(values)
        self._stream = places.open_output_stream(self._path)
        self._footers: list[Any] = []
        self._floats: Floats = {}
        self._writer: Any = None
        self._rows: list[pa.Table] = []

    def buffer(self, rows: pa.Table) -> None:
        self._rows.append(rows.select(self._schema.names))
        self.buffered += rows.nbytes

    def flush(self) -> int:
        """Write what is buffered as a row group, and return the size of the file so far."""
        if self._rows:
            rows = pa.concat_tables(self._rows)
            self._writer = self._writer or pq.ParquetWriter(
                self._stream,
                self._schema,
                **self._plan.options,
                use_dictionary=repetitive(rows),
                write_statistics=without_floats(self._schema),
                metadata_collector=self._footers,
            )
            add_floats(self._floats, rows)
            self._writer.write_table(rows, row_group_size=1 << 20)
            self._rows, self.buffered = [], 0
        return int(self._stream.tell())

    def close(self) -> Any:
        self.flush()
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        return self._plan.described(self._path, self._values, size, self._footers[0], self._floats)

    def abandoned(self) -> str:
        with suppress(Exception):  # a writer that failed raises anything, also RuntimeError
            if self._writer is not None:
                self._writer.close()
        with suppress(Exception):
            self._stream.close()
        return self._path


def _path_of(file: Any) -> str:
    return str(file.path if isinstance(file, DeltaFile) else file.file_path)


def repetitive(rows: pa.Table) -> bool | list[str]:
    """Return the columns whose first values repeat, for which a dictionary is worth its time: for others it doubles it.

    Where columns are nested, return True for all.
    """
    if any(pa.types.is_nested(each.type) for each in rows.schema):
        return True
    first = rows.slice(0, SAMPLED_ROWS)
    return [name for name in rows.column_names if 2 * pc.count_distinct(first[name], "all").as_py() <= first.num_rows]


# Partition values


def by_partition(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Values, pa.Table]]:
    """Yield the rows of each combination of partition values. Raises TableBroken."""
    for values, part in grouped(rows, [rows[name] for name in columns]):
        yield tuple(map(_partition_text, values)), part


def grouped(rows: pa.Table, keys: Sequence[Any]) -> Iterator[tuple[tuple[pa.Scalar, ...], pa.Table]]:
    """Yield the rows of each combination of the values that columns of keys have, NaN and null among them."""
    if not keys:
        yield (), rows
        return
    names = [str(at) for at in range(len(keys))]
    numbered = pa.table([*keys, pa.array(range(rows.num_rows), pa.int64())], [*names, ""])
    found = numbered.group_by(names, use_threads=False).aggregate([("", "list")])
    for at in range(found.num_rows):
        values = tuple(found[name][at] for name in names)
        yield values, rows if found.num_rows == 1 else rows.take(found["_list"][at].values)


def require_partitionable(columns: Iterable[pa.Field], table: str) -> None:
    """Raise SchemaMismatch, naming the first partition column whose values readers of Delta take in different ways."""
    for each in columns:
        if pa.types.is_nested(each.type) or pa.types.is_binary(each.type) or pa.types.is_large_binary(each.type):
            raise SchemaMismatch(
                f"{table} cannot be partitioned by {each.name}, {each.type}: readers differ in its text; partition by"
                f" another column, such as hex({each.name})"
            )


def partition_texts(values: pa.ChunkedArray) -> list[str | None]:
    """Return partition values as text, as Delta's protocol has them; an empty text is a null there.

    Raises TableBroken for a year that readers do not take.
    """
    return [_partition_text(each) for each in values]


def _partition_text(scalar: pa.Scalar) -> str | None:
    if not scalar.is_valid:
        return None
    if pa.types.is_temporal(scalar.type):
        text = str(scalar.cast(pa.string()).as_py())  # Python has no year 10000
        if not _YEARS.match(text):
            raise TableBroken(
                f"the partition value {text} was refused: readers of Delta take the years 1 to 9999 there. Correct it,"
                " or partition by another column"
            )
        # With a time zone as ISO 8601, so that no reader takes it for a time of its own zone.
        return text.replace(" ", "T") if text.endswith("Z") else text
    value = scalar.as_py()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value) or None


def directory(values: Mapping[str, str | None]) -> str:
    """Return the directory of a partition, named as Hive names it: some readers take the values from it."""
    return "".join(f"{_escaped(name)}={NULL if at is None else _escaped(at)}/" for name, at in values.items())


def _escaped(text: str) -> str:
    return re.sub(r"""[\x00-\x20"#%'*/:<=>?\[\\\]^`{|}~\x7f]""", lambda found: f"%{ord(found[0]):02X}", text)


# Statistics


def flat_columns(fields: Iterable[pa.Field], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the names and the type of each column, and of each field of structs, that is not nested itself."""
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from flat_columns(field.type, (*above, field.name))
        elif not pa.types.is_nested(field.type):
            yield (*above, field.name), field.type


def add_floats(floats: Floats, rows: pa.Table) -> None:
    """Add rows to the bounds of their columns of floating point: Parquet's leave out what is not a number."""
    for names, kind in flat_columns(rows.schema):
        if pa.types.is_floating(kind):
            column = rows[names[0]]
            if names[1:]:
                column = pc.struct_field(column, names[1:])
            found = pc.min_max(column)
            limits = [each for each in (found["min"].as_py(), found["max"].as_py()) if each is not None]
            if pc.any(pc.is_nan(column)).as_py():
                limits.append(nan)
            nulls, low, high = floats.get(names, (0, None, None))
            # What is not a number is the largest, as for Spark and as in Delta's own statistics.
            numbers = sorted(
                (each for each in (low, *limits, high) if each is not None), key=lambda each: (isnan(each), each)
            )
            if numbers:
                low, high = numbers[0] or -0.0, numbers[-1] or 0.0  # to some readers -0.0 is less than 0.0
            floats[names] = (nulls + column.null_count, low, high)


def without_floats(schema: pa.Schema) -> bool | list[str]:
    """Return the columns of a Parquet file that have statistics there: all but those of floating point.

    A reader to which NaN is the largest number skips it by a largest value that leaves it out.
    """
    sink = pa.BufferOutputStream()
    pq.write_metadata(schema, sink)
    columns = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    paths = [columns.column(at) for at in range(len(columns))]
    return [each.path for each in paths if each.physical_type not in ("FLOAT", "DOUBLE")]


def statistics(footer: Any, schema: pa.Schema, floats: Floats) -> dict[str, Any]:
    """Return Delta's statistics of a file out of its Parquet footer, and of its columns of floating point.

    Every column has bounds that can have some: delta-rs 1.6 takes one without for null where its dataset is filtered.
    """
    bounds: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    single = [at for at in range(len(footer.schema)) if not footer.schema.column(at).max_repetition_level]
    for at, (names, kind) in list(zip(single, flat_columns(schema), strict=True))[:STATISTICS_COLUMNS]:
        low: Any = None
        high: Any = None
        if names in floats:
            nulls, low, high = floats[names]
        else:
            found = [group.column(at).statistics for group in groups]
            if not all(each is not None and each.has_null_count for each in found):
                continue
            nulls, limits = sum(each.null_count for each in found), [each for each in found if each.num_values]
            if limits and all(each.has_min_max for each in limits):
                with suppress(OverflowError):  # Python has no year 10000
                    low, high = min(each.min for each in limits), max(each.max for each in limits)
            elif limits and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                low, high = "", _LAST * LONGEST_BOUND  # Parquet has none of texts of some thousand bytes
        *above, name = names
        lows, highs, counts = (_inner(bounds[each], above) for each in ("minValues", "maxValues", "nullCount"))
        counts[name] = nulls
        with suppress(OverflowError):
            low, high = _bound(low, is_upper=False), _bound(high, is_upper=True)
            if low is not None and high is not None:
                lows[name], highs[name] = low, high
    return {"numRecords": footer.num_rows, **bounds}


def _inner(values: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the bounds of the fields of a struct; with none it has an empty object, as Delta's own writer has it."""
    for each in names:
        values = values.setdefault(each, {})
    return values


def _bound(value: Any, *, is_upper: bool) -> Any:
    """Return a bound as JSON has it, None where JSON has no such value."""
    if isinstance(value, bool | int | Decimal):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else _float_text(value)
    if isinstance(value, str):
        if len(value) <= LONGEST_BOUND:
            return value
        return value[:LONGEST_BOUND] + (_LAST if is_upper else "")
    if isinstance(value, datetime):
        unit = "milliseconds"
        if is_upper:  # in whole milliseconds, but for the last one of the year 9999
            try:
                value += timedelta(microseconds=999)
            except OverflowError:
                unit = "microseconds"
        text = value.replace(tzinfo=None).isoformat(timespec=unit)
        return f"{text}Z" if value.tzinfo is not None else text
    return value.isoformat() if isinstance(value, date) else None


def _float_text(value: float) -> str:
    return str(value).replace("nan", "NaN").replace("inf", "Infinity")


def _as_json(stats: Mapping[str, Any]) -> str:
    """Return statistics as JSON, in which a decimal is a number with all its digits."""
    decimals: list[str] = []

    def numbered(value: Decimal) -> str:
        decimals.append(f"{value:f}")
        return f"\ud800{len(decimals) - 1}"  # half a character: no text begins so

    text = json.dumps(stats, default=numbered)
    return re.sub(r'"\\ud800(\d+)"', lambda found: decimals[int(found[1])], text)
