"""Columns of Spark in PostgreSQL: the types they get, those they fit into, and rows as the CSV that COPY reads.

A null is nothing between commas; an empty text is two quotes. Pure: it asks no server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from kohort.spark.tables.table import SchemaMismatch

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_TYPES = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
"""What a column of Spark becomes in a table that is made for it."""

_WHOLE = ("smallint", "integer", "bigint", "numeric")
_ALSO = {
    "smallint": _WHOLE,
    "integer": _WHOLE,
    "bigint": _WHOLE,
    "real": ("double precision", "numeric"),
    "double precision": ("numeric",),
    "text": ("character varying", "character", "json", "jsonb", "uuid", "inet", "USER-DEFINED"),
    "timestamp with time zone": ("timestamp without time zone",),
}
"""Other types of an existing table that take the same text; a value that is too large is refused by the server.

Types that would round a value are none: the server rounds without an error.
"""


class Column(NamedTuple):
    """A column of a table, with its type as the information schema has it."""

    name: str
    kind: str
    precision: int | None = None
    scale: int | None = None

    @property
    def declaration(self) -> str:
        """The type as in a CREATE TABLE."""
        return f"numeric({self.precision}, {self.scale})" if self.kind == "numeric" and self.precision else self.kind


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """Return the columns of a table for a frame. Raises SchemaMismatch for a type that has no place there."""
    return tuple(Column(field.name, *_kind(field.name, field.dataType)) for field in schema.fields)


def require_room(table: Sequence[Column], wanted: Sequence[Column], name: str) -> None:
    """Raise SchemaMismatch, naming what differs, unless a table has a place for each of a frame's columns."""
    here = {each.name: each for each in table}
    faults = [f"it has no column {each.name} {each.kind}" for each in wanted if each.name not in here]
    faults += [
        f"its column {each.name} is {here[each.name].declaration}, the rows' would be {each.declaration}"
        for each in wanted
        if each.name in here and not _has_room(here[each.name], each)
    ]
    if faults:
        raise SchemaMismatch(f"{name} does not take these rows: {'; '.join(faults)}")


def _has_room(column: Column, wanted: Column) -> bool:
    """Whether a column takes each value of another one as it is, or refuses it."""
    if column.kind == "numeric" and column.scale is not None:
        if wanted.kind in ("real", "double precision"):
            return False
        if wanted.kind == "numeric":
            return wanted.scale is not None and wanted.scale <= column.scale
    return column.kind in (wanted.kind, *_ALSO.get(wanted.kind, ()))


def to_csv(batch: pa.RecordBatch) -> bytes:
    """Return rows as lines of CSV for COPY."""
    sink = BytesIO()
    columns = [_as_text(batch.column(number)) for number in range(batch.num_columns)]
    rows = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(batch.num_columns)])
    arrow_csv.write_csv(rows, sink, arrow_csv.WriteOptions(include_header=False))
    return sink.getvalue()


def _kind(name: str, kind: DataType) -> tuple[str, int | None, int | None]:
    from pyspark.sql.types import DecimalType

    if isinstance(kind, DecimalType):
        return "numeric", kind.precision, kind.scale
    name_of_kind = kind.simpleString().partition("(")[0]
    if name_of_kind in ("char", "varchar"):
        return "text", None, None
    if name_of_kind not in _TYPES:
        raise SchemaMismatch(
            f"column {name} is {kind.simpleString()}, for which PostgreSQL has no type:"
            f" store it as text, with to_json({name}) for example"
        )
    return _TYPES[name_of_kind], None, None


def _as_text(column: pa.Array) -> pa.Array:
    """Return a column in a type that CSV can express."""
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if each is None else "\\x" + each.hex() for each in column.to_pylist()], pa.string())
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp("us", "UTC"))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        texts = column.cast(pa.string())
        if pc.any(pc.match_substring_regex(texts, "^-|^0000|^[0-9]{5}")).as_py():
            return pa.array([each and _of_any_year(each) for each in texts.to_pylist()], pa.string())
    return column


def _of_any_year(text: str) -> str:
    """Return a date or a time as PostgreSQL has it: before the year 1 come those before Christ."""
    found = re.fullmatch(r"(-?\d+)(-.*)", text)
    assert found is not None, "a date begins with its year"
    year, rest = int(found[1]), found[2]
    return f"{year:04}{rest}" if year > 0 else f"{1 - year:04}{rest} BC"
