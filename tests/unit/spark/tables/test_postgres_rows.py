"""Spark's columns in PostgreSQL, and rows as the lines of CSV that COPY takes."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import IntegerType, MapType, StringType, StructType

from kohort.spark.tables.postgres_rows import Column, columns_of, require_room, to_csv
from kohort.spark.tables.table import SchemaMismatch

AT = datetime(2020, 1, 2, 3, 4, 5, 678, UTC)


def test_a_null_is_nothing_and_an_empty_text_is_quotes() -> None:
    rows = pa.RecordBatch.from_pydict({"s": ["", None, 'a"b,\n'], "b": [b"", None, b"\x00\xff"]})
    assert to_csv(rows) == b'"","\\x"\n,\n"a""b,\n","\\x00ff"\n'


def test_times_are_written_in_utc_whatever_their_zone() -> None:
    times = pa.array([AT], pa.timestamp("us", "Asia/Tokyo"))
    assert to_csv(pa.RecordBatch.from_pydict({"t": times})) == b"2020-01-02 03:04:05.000678Z\n"


def test_a_table_made_for_a_frame_has_room_for_it() -> None:
    frame = StructType().add("a", "integer").add("c", "string").add("d", "binary").add("e", "decimal(12,3)")
    frame = frame.add("f", "timestamp").add("g", "timestamp_ntz").add("h", "double").add("i", "boolean")
    columns = columns_of(frame)
    require_room(columns, columns, "t")


def test_a_type_without_a_place_is_refused_with_what_to_do() -> None:
    with pytest.raises(SchemaMismatch, match=r"column m is map<string,int>.*to_json\(m\)"):
        columns_of(StructType().add("m", MapType(StringType(), IntegerType())))


def test_a_table_of_ones_own_may_have_more_columns_and_wider_types() -> None:
    mine = [Column("id", "bigint"), Column("name", "character varying"), Column("made", "date")]
    require_room(mine, [Column("id", "integer"), Column("name", "text")], "t")
    with pytest.raises(SchemaMismatch, match=r"its column id is bigint, the rows' would be text; |no column x real"):
        require_room(mine, [Column("id", "text"), Column("x", "real")], "t")


@pytest.mark.parametrize(
    ("mine", "rows"),
    [
        (Column("x", "numeric", 10, 2), Column("x", "numeric", 12, 3)),
        (Column("x", "numeric", 10, 2), Column("x", "double precision")),
        (Column("x", "real"), Column("x", "double precision")),
    ],
)
def test_a_column_that_would_round_values_is_refused(mine: Column, rows: Column) -> None:
    """PostgreSQL rounds 1.125 to 1.13 without an error."""
    with pytest.raises(SchemaMismatch, match=r"its column x is (numeric\(10, 2\)|real), the rows' would be "):
        require_room([mine], [rows], "t")
    require_room([Column("x", "numeric")], [rows], "t")


def test_dates_and_times_of_any_year_are_as_postgresql_has_them() -> None:
    days = pa.array([-719162, -719163, -735233, 2932897, None], pa.date32())
    times = pa.array([each and each * 86_400_000_000 for each in days.cast(pa.int32()).to_pylist()])
    rows = pa.RecordBatch.from_pydict({"d": days, "t": times.cast(pa.timestamp("us", "UTC"))})
    assert to_csv(rows).decode().splitlines() == [
        '"0001-01-01","0001-01-01 00:00:00.000000Z"',
        '"0001-12-31 BC","0001-12-31 00:00:00.000000Z BC"',
        '"0044-01-01 BC","0044-01-01 00:00:00.000000Z BC"',
        '"10000-01-01","10000-01-01 00:00:00.000000Z"',
        ",",
    ]
