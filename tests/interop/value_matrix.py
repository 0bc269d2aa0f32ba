"""Values of every type that Spark writes, as columns and as partitions of Delta and Iceberg tables, and their readers.

A reader returns all rows, and the ids of those that a condition finds: by a filter, for which files and partitions are
skipped, and in the reader's own words as a computed column, for which none are. Both must be the same.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from interop.foreign_readers import duckdb
from pyarrow import types

FORMATS = ("Delta", "Iceberg")
ROLES = ("column", "partition")
TEXTS = (
    *("''", "'New York'", "'Zürich'", "'Zu\u0308rich'", "'日本'", "'😀'", "'a/b'", "'100%'", "'%20'", "'x=y'", "'a:b'"),
    *(r"'it\'s'", "'\"q\"'", r"'a\\b'", "'{j}'", "'[a]*?'", "'.'", "'..'", "'null'", "'None'", "'NaN'", "'true'"),
    *("' lead'", "'trail '", r"'tab\tline\n'", r"'nul\u0000'", r"'\u007f'", r"'\uffff'", "'A'", "'a'", "'+&#;,~|'"),
    *("'__HIVE_DEFAULT_PARTITION__'", "'2026-01-01'", "repeat('w', 64)", "repeat('é', 65)"),
)
DAYS = ("0001-01-01", "1582-10-04", "1582-10-15", "1899-12-31", "1969-12-31", "1970-01-01", "2026-11-23", "9999-12-31")
TIMES = (
    *("0001-01-01 00:00:00", "1582-10-04 23:59:59.999", "1899-12-31 23:59:59.5", "1969-12-31 23:59:59.999999"),
    *("1970-01-01 00:00:00", "2026-11-23 01:02:03.000004", "2026-03-29 02:30:00", "9999-12-31 23:59:59.999999"),
)
FAR_DAYS = ("-0044-03-15", "0000-12-31", "2026-01-01", "+10000-01-01")
FAR_TIMES = ("-0044-03-15 00:00:00", "2026-01-01 00:00:00", "+10000-01-01 00:00:00", "+294247-01-10 04:00:54.775807")


def _floats(kind: str, *more: str) -> list[str]:
    return [f"{kind}('{each}')" for each in ("0.0", "-0.0", "NaN", "Infinity", "-Infinity", "0.1", "-2.5", *more)]


def _decimals(precision: int, scale: int) -> list[str]:
    digits = "9" * precision
    most = f"{digits[: precision - scale] or 0}.{digits[:scale]}".rstrip(".")
    least = f"0.{'0' * (scale - 1)}1" if scale else "1"
    return [f"CAST('{each}' AS decimal({precision},{scale}))" for each in ("0", most, f"-{most}", least, f"-{least}")]


VALUES: dict[str, Sequence[str]] = {
    "boolean": ("true", "false"),
    "tinyint": ("-128Y", "-1Y", "0Y", "127Y"),
    "smallint": ("-32768S", "0S", "32767S"),
    "int": ("-2147483648", "-1", "0", "2147483647"),
    "bigint": ("bigint('-9223372036854775808')", "-1L", "0L", "9007199254740993L", "9223372036854775807L"),
    "float": _floats("float", "3.4028235E38", "1.4E-45"),
    "double": _floats("double", "1.7976931348623157E308", "4.9E-324"),
    "decimal(4,2)": _decimals(4, 2),
    "decimal(18,6)": _decimals(18, 6),
    "decimal(38,0)": _decimals(38, 0),
    "decimal(38,18)": _decimals(38, 18),
    "decimal(38,38)": _decimals(38, 38),
    "string": TEXTS,
    "binary": ("X''", "X'00'", "X'FF'", "X'61622F25'", "X'00FF10'", "cast(repeat('b', 100) AS binary)"),
    "date": [f"DATE'{each}'" for each in DAYS],
    "date, any year": [f"DATE'{each}'" for each in FAR_DAYS],
    "timestamp": [f"TIMESTAMP'{each}Z'" for each in TIMES],
    "timestamp, any year": [f"TIMESTAMP'{each}Z'" for each in FAR_TIMES],
    "timestamp_ntz": [f"TIMESTAMP_NTZ'{each}'" for each in TIMES],
    "timestamp_ntz, any year": [f"TIMESTAMP_NTZ'{each}'" for each in FAR_TIMES],
    "array<int>": ("array()", "array(NULL)", "array(1, NULL, 2)"),
    "array<string>": ("array()", "array('')", "array('ü', NULL)"),
    "array<array<double>>": ("array()", "array(NULL)", "array(array(), array(double('NaN'), -0.0D, NULL))"),
    "array<struct<x:int>>": (
        *("array()", "array(NULL)", "array(named_struct('x', NULL))", "array(named_struct('x', 1), NULL)"),
    ),
    "array<map<string,int>>": ("array()", "array(NULL)", "array(map(), map('k', NULL))"),
    "map<string,int>": ("map()", "map('', NULL, 'k', 1)"),
    "map<int,array<string>>": ("map()", "map(1, NULL, 2, array(), 3, array('', NULL))"),
    "map<string,struct<x:int>>": ("map()", "map('k', NULL)", "map('k', named_struct('x', NULL))"),
    "struct<x:int,y:string>": ("named_struct('x', NULL, 'y', NULL)", "named_struct('x', 1, 'y', '')"),
    "struct<s:struct<a:array<struct<x:int>>>,d:date>": (
        "named_struct('s', NULL, 'd', NULL)",
        "named_struct('s', named_struct('a', NULL), 'd', DATE'9999-12-31')",
        "named_struct('s', named_struct('a', array(NULL)), 'd', DATE'0001-01-01')",
    ),
}
"""Values in Spark's SQL by type; a table also has a null. What follows a comma is no part of the type."""

UNSTORED = {
    "void": "NULL",
    "interval day to second": "INTERVAL '1' DAY",
    "interval year to month": "INTERVAL '1' YEAR",
    "variant": "parse_json('1')",
    "array<interval>": "array(INTERVAL '1' DAY)",
}
"""Types of Spark that no table has: refused by name."""


class Condition(NamedTuple):
    """A comparison of the column `value` with a value; with none, `is null` or `is not null`."""

    operator: str
    at: int = -1
    """Which of the table's values."""


def conditions(name: str) -> list[Condition]:
    """Return the conditions by which the values of a type are looked for; nested ones only for null."""
    found = [Condition("is null"), Condition("is not null")]
    if "<" not in name:
        numbers = range(len(VALUES[name]))
        found += [Condition("=", at) for at in numbers] + [Condition(each, len(numbers) // 2) for each in "<>"]
    return found


def is_refused(table: str, name: str, role: str) -> bool:
    """Whether a partition of this type is refused by name; of the types of any year, its values are."""
    of_format = (table, name) in (("Delta", "binary"), ("Iceberg", "double"))
    return role == "partition" and ("<" in name or "any year" in name or of_format)


# Values as text


def plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value of Arrow as one that compares: dates and times are numbers, which have any year.

    `kind` is the type that is wanted: readers differ in their own for maps and integers.
    """
    if not value.is_valid:
        return None
    if isinstance(value, pa.ExtensionScalar):
        value = value.value
    if types.is_map(kind):
        pairs = [(each[0], each[1]) if isinstance(each, pa.StructScalar) else each for each in value.values]
        return sorted([plain(key, kind.key_type), plain(item, kind.item_type)] for key, item in pairs)
    if types.is_list(kind) or types.is_large_list(kind):
        return [plain(each, kind.value_type) for each in value.values]
    if types.is_struct(kind):
        return {each.name: plain(value[each.name], each.type) for each in kind}
    if types.is_timestamp(value.type):
        count = value.cast(pa.int64()).as_py()
        return {"s": count * 1_000_000, "ms": count * 1000, "us": count, "ns": count / 1000}[value.type.unit]
    if types.is_date(value.type):
        return value.cast(pa.int32()).as_py() if types.is_date32(value.type) else value.value // 86_400_000
    if types.is_floating(value.type):
        return repr(value.as_py())
    found = value.as_py()
    return found.hex() if isinstance(found, bytes) else str(found) if types.is_decimal(value.type) else found


def rows_of(table: pa.Table, kind: pa.DataType) -> dict[int, Any]:
    """Return the values of a table by id, as text."""
    table = table.combine_chunks()
    return {table["id"][at].as_py(): repr(plain(table["value"][at], kind)) for at in range(table.num_rows)} | (
        {} if len(set(table["id"].to_pylist())) == table.num_rows else {-1: "an id twice"}
    )


# Readers


class Reader(ABC):
    """Reads a table with the columns `id` and `value`, whose values are in `truth`, an Arrow table with them."""

    def __init__(self, where: Any, name: str, truth: pa.Table) -> None:
        self.where, self.name, self.truth = where, name, truth
        self.kind = truth.schema.field("value").type

    @abstractmethod
    def read(self) -> pa.Table:
        """Return all rows."""

    @abstractmethod
    def computed(self, wanted: Sequence[Condition]) -> list[set[int]]:
        """Return the ids that each condition finds in all rows."""

    @abstractmethod
    def filtered(self, wanted: Sequence[Condition]) -> list[set[int] | Exception]:
        """Return the ids that a filter finds by each condition."""

    def value(self, condition: Condition) -> pa.Scalar:
        """Return what a condition compares with."""
        return self.truth["value"][condition.at]

    def problems(self, layout: str, truth: Mapping[int, Any], wanted: Sequence[Condition]) -> list[str]:
        """Return what is not as it should be, by layout, condition and value."""
        texts = ["" if each.at < 0 else f" {_short(plain(self.value(each), self.kind))}" for each in wanted]
        try:
            rows = rows_of(self.read(), self.kind)
        except Exception as error:
            return [f"{layout}: not read: {_reason(error)}"]
        found = [
            f"{layout}: {_short(value)} read as {_short(rows.pop(at, 'no row'))}"
            for at, value in truth.items()
            if rows.get(at, "no row") != value
        ]
        try:
            expected = self.computed(wanted)
        except Exception as error:
            return [*found, f"{layout}: not compared: {_reason(error)}"]
        for text, each, all_ids, ids in zip(texts, wanted, expected, self.filtered(wanted), strict=True):
            if isinstance(ids, Exception):
                found.append(f"{layout}: {each.operator}{text} fails: {_reason(ids)}")
            elif ids != all_ids:
                found.append(f"{layout}: {each.operator}{text} finds {len(ids)} of {len(all_ids)}")
        return found


def _reason(error: Exception) -> str:
    """Return what an error is about, without places and numbers that differ from table to table."""
    text = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {re.sub(r'(file:)?/[^ ]*|[0-9a-f-]{36}', '…', text)[:120]}"


def _short(text: object) -> str:
    shown = str(text)
    return shown if len(shown) <= 40 else f"{shown[:37]}…"


class SqlReader(Reader):
    """A reader with SQL."""

    @abstractmethod
    def query(self, text: str) -> pa.Table:
        """Return what a query returns, in which `t` is the table."""

    @abstractmethod
    def literal(self, condition: Condition) -> str:
        """Return the value that a condition compares with."""

    def read(self) -> pa.Table:
        return self.query("SELECT id, value FROM t")

    def computed(self, wanted: Sequence[Condition]) -> list[set[int]]:
        columns = ", ".join(f"{self._sql(each)} AS c{at}" for at, each in enumerate(wanted))
        found = self.query(f"SELECT id, {columns} FROM t").to_pylist()
        return [{row["id"] for row in found if row[f"c{at}"]} for at in range(len(wanted))]

    def filtered(self, wanted: Sequence[Condition]) -> list[set[int] | Exception]:
        return [_attempt(partial(self._ids, each)) for each in wanted]

    def _ids(self, condition: Condition) -> set[int]:
        return set(self.query(f"SELECT id FROM t WHERE {self._sql(condition)}")["id"].to_pylist())

    def _sql(self, condition: Condition) -> str:
        return f"value {condition.operator} {'' if condition.at < 0 else self.literal(condition)}"


def _attempt(work: Callable[[], set[int]]) -> set[int] | Exception:
    try:
        return work()
    except Exception as error:
        return error


class DuckDBReader(SqlReader):
    """DuckDB, by its extensions for both formats."""

    shared: Any = None

    def query(self, text: str) -> pa.Table:
        type(self).shared = connection = self.shared or duckdb("delta", "avro", "iceberg")
        scan = f"delta_scan('{self.where}')" if isinstance(self.where, str) else self._iceberg()
        return connection.execute(text.replace("FROM t", f"FROM {scan}")).to_arrow_table()

    def _iceberg(self) -> str:
        return f"iceberg_scan('{self.where.metadata_location}')"

    def literal(self, condition: Condition) -> str:
        return _duckdb_literal(self.value(condition), self.name)


def _duckdb_literal(value: pa.Scalar, name: str) -> str:
    kind = name.partition(",")[0] if "(" not in name else name
    names = {"timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP", "string": "VARCHAR", "binary": "BLOB"}
    if kind == "string":
        return " || ".join(f"chr({ord(each)})" if each in "\0'" else f"'{each}'" for each in value.as_py()) or "''"
    if kind == "binary":
        return f"from_hex('{value.as_py().hex()}')"
    if types.is_date(value.type):
        return f"(DATE '1970-01-01' + {value.cast(pa.int32()).as_py()})"
    if types.is_timestamp(value.type):
        count = value.cast(pa.int64()).as_py()
        made = (
            "TIMESTAMP 'infinity'" if count == (1 << 63) - 1 else f"make_timestamp({count})"
        )  # what DuckDB takes it for
        return made if value.type.tz is None else f"({made} AT TIME ZONE 'UTC')"
    text = f"{value.as_py():f}" if types.is_decimal(value.type) else value.as_py()
    return f"CAST('{text}' AS {names.get(kind, kind)})"


class DeltaRsReader(SqlReader):
    """delta-rs by DataFusion. Filters are also those of its dataset of pyarrow, which trusts the log's statistics."""

    def query(self, text: str) -> pa.Table:
        from deltalake import DeltaTable, QueryBuilder

        return pa.table(QueryBuilder().register("t", DeltaTable(self.where)).execute(text).read_all())

    def literal(self, condition: Condition) -> str:
        value = self.value(condition)
        if types.is_string(value.type) or types.is_large_string(value.type):
            return "'" + str(value.as_py()).replace("'", "''") + "'"
        if types.is_binary(value.type) or types.is_large_binary(value.type):
            return f"decode('{value.as_py().hex()}', 'hex')"
        if types.is_date(value.type):
            return f"arrow_cast(arrow_cast({value.cast(pa.int32()).as_py()}, 'Int32'), 'Date32')"
        if types.is_timestamp(value.type):
            zone = 'Some("UTC")' if value.type.tz else "None"
            return f"arrow_cast({value.cast(pa.int64()).as_py()}, 'Timestamp(Microsecond, {zone})')"
        kinds = {pa.float32(): "Float32", pa.float64(): "Float64", pa.bool_(): "Boolean"}
        kind = kinds.get(value.type) or (
            f"Decimal128({value.type.precision}, {value.type.scale})"
            if types.is_decimal(value.type)
            else f"Int{value.type.bit_width}"
        )
        text = f"{value.as_py():f}" if types.is_decimal(value.type) else value.as_py()
        return f"arrow_cast('{text}', '{kind}')".replace("'True'", "true").replace("'False'", "false")

    def filtered(self, wanted: Sequence[Condition]) -> list[set[int] | Exception]:
        return [
            one if isinstance(other, NotImplementedError) or one == other else other
            for one, other in zip(
                super().filtered(wanted), [_attempt(partial(self._of_dataset, each)) for each in wanted], strict=True
            )
        ]

    def _of_dataset(self, condition: Condition) -> set[int]:
        from deltalake import DeltaTable

        rows = DeltaTable(self.where).to_pyarrow_dataset()
        test = _arrow(condition, None if condition.at < 0 else self.value(condition))
        found = set(rows.to_table(filter=test, columns=["id"])["id"].to_pylist())
        if found == set(rows.to_table().filter(test)["id"].to_pylist()):
            raise NotImplementedError("as it should be")  # by pyarrow's own comparison, in which NaN equals nothing
        return found


def _arrow(condition: Condition, value: pa.Scalar | None) -> Any:
    column = pc.field("value")
    if value is None:
        return column.is_null() if condition.operator == "is null" else column.is_valid()
    return {"=": column == value, "<": column < value, ">": column > value}[condition.operator]


class PolarsReader(Reader):
    """Polars, which takes partition values from the names of directories."""

    def _lazy(self) -> Any:
        import polars

        return polars.scan_delta(self.where) if isinstance(self.where, str) else polars.scan_iceberg(self.where)

    def read(self) -> pa.Table:
        return self._lazy().select("id", "value").collect().to_arrow()

    def computed(self, wanted: Sequence[Condition]) -> list[set[int]]:
        columns = {f"c{at}": self._expression(each) for at, each in enumerate(wanted)}
        found = self._lazy().select("id", **columns).collect()
        return [set(found.filter(found[name])["id"]) for name in columns]

    def filtered(self, wanted: Sequence[Condition]) -> list[set[int] | Exception]:
        return [_attempt(partial(self._ids, each)) for each in wanted]

    def _ids(self, condition: Condition) -> set[int]:
        return set(self._lazy().filter(self._expression(condition)).select("id").collect()["id"])

    def _expression(self, condition: Condition) -> Any:
        import polars

        column = polars.col("value")
        if condition.at < 0:
            return column.is_null() if condition.operator == "is null" else column.is_not_null()
        value = self.value(condition)
        series = polars.Series(pa.array([value]))
        try:
            value.as_py()
        except (ValueError, OverflowError):  # Python has no such year
            literal = polars.lit(series.to_physical()[0]).cast(series.dtype)
        else:
            literal = polars.lit(series[0], dtype=series.dtype)
        return {"=": column == literal, "<": column < literal, ">": column > literal}[condition.operator]


class PyicebergReader(Reader):
    """pyiceberg."""

    def read(self) -> pa.Table:
        return self.where.scan().to_arrow()

    def computed(self, wanted: Sequence[Condition]) -> list[set[int]]:
        rows, found = self.read(), []
        kind = rows.schema.field("value").type
        for each in wanted:
            test = _arrow(each, None if each.at < 0 else self.value(each).cast(kind))
            if each.operator == "=" and plain(self.value(each), self.kind) == "nan":
                test = pc.field("value").is_nan()
            found.append(set(rows.filter(test)["id"].to_pylist()))
        return found

    def filtered(self, wanted: Sequence[Condition]) -> list[set[int] | Exception]:
        return [_attempt(partial(self._ids, each)) for each in wanted]

    def _ids(self, condition: Condition) -> set[int]:
        from pyiceberg.expressions import EqualTo, GreaterThan, IsNaN, IsNull, LessThan, NotNull, literal

        if condition.at < 0:
            test: Any = {"is null": IsNull, "is not null": NotNull}[condition.operator]("value")
        else:
            value = self.value(condition)
            if types.is_temporal(value.type):
                value = _of_any_year(value)
            if plain(self.value(condition), self.kind) == "nan":
                test = IsNaN("value")
            else:
                given = value if not isinstance(value, pa.Scalar) else literal(value.as_py())
                test = {"=": EqualTo, "<": LessThan, ">": GreaterThan}[condition.operator]("value", given)
        return set(self.where.scan(row_filter=test, selected_fields=("id",)).to_arrow()["id"].to_pylist())


def _of_any_year(value: pa.Scalar) -> Any:
    from pyiceberg.expressions import literals

    if types.is_date(value.type):
        return literals.DateLiteral(value.cast(pa.int32()).as_py())
    return literals.TimestampLiteral(value.cast(pa.int64()).as_py())


OTHERS: dict[str, type[Reader]] = {
    "delta-rs": DeltaRsReader,
    "pyiceberg": PyicebergReader,
    "DuckDB": DuckDBReader,
    "Polars": PolarsReader,
}
"""Readers without Spark."""
