"""Files of a Delta table: rows by partition, and the statistics by which readers skip files."""

from __future__ import annotations

import io
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from kohort.spark.tables.delta_files import (
    FilePlan,
    FileWriter,
    by_partition,
    directory,
    partition_texts,
    repetitive,
    statistics,
)
from kohort.spark.tables.table import TableBroken


def footer(table: Any, rows_in_group: int = 100) -> Any:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=rows_in_group)
    return pq.read_metadata(io.BytesIO(sink.getvalue()))


def test_rows_of_each_partition_value_nulls_among_them() -> None:
    days = [date(2026, 1, 1), None, date(2026, 1, 2), date(2026, 1, 1)]
    rows = pa.table({"id": range(4), "day": pa.array(days, pa.date32()), "hour": [1, 1, 1, 2]})
    found = {values: part["id"].to_pylist() for values, part in by_partition(rows, ("day", "hour"))}
    assert found == {("2026-01-01", "1"): [0], (None, "1"): [1], ("2026-01-02", "1"): [2], ("2026-01-01", "2"): [3]}
    assert [part.num_rows for _, part in by_partition(rows, ())] == [4]


def test_rows_whose_partition_value_is_not_a_number_are_a_partition() -> None:
    rows = pa.table({"id": range(4), "x": [float("nan"), 1.0, float("nan"), None]})
    found = {values: part["id"].to_pylist() for values, part in by_partition(rows, ("x",))}
    assert found == {("NaN",): [0, 2], ("1.0",): [1], (None,): [3]}


def test_columns_whose_values_repeat_have_a_dictionary() -> None:
    rows = pa.table({"id": range(4), "topic": ["t"] * 4, "none": pa.nulls(4, pa.binary()), "half": [1, 1, 2, 2]})
    assert repetitive(rows) == ["topic", "none", "half"]
    assert repetitive(rows.append_column("nested", [[{"a": 1}] * 4])) is True
    assert repetitive(pa.table({"x": [float("nan")] * 4, "y": [1.5, 2.5, 3.5, 4.5]})) == ["x"]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.bool_(), True, "true"),
        (pa.int64(), 7, "7"),
        (pa.string(), "", None),
        (pa.string(), None, None),
        (pa.date32(), date(2026, 11, 23), "2026-11-23"),
        (pa.date32(), date.min, "0001-01-01"),
        (pa.timestamp("us"), datetime(2026, 11, 23, 1, 2, 3, 4), "2026-11-23 01:02:03.000004"),
        (pa.timestamp("us", "UTC"), datetime(1, 1, 1), "0001-01-01T00:00:00.000000Z"),
        (pa.decimal128(20, 10), Decimal("1E-10"), "0.0000000001"),
        (pa.float64(), float("-inf"), "-Infinity"),
    ],
)
def test_partition_values_are_those_of_the_protocol(kind: Any, value: object, text: str | None) -> None:
    assert partition_texts(pa.chunked_array([pa.array([value], kind)])) == [text]


def test_a_partition_value_beyond_the_year_9999_is_refused_by_name() -> None:
    with pytest.raises(TableBroken, match="value 10000-01-01 was refused: readers of Delta take the years 1 to 9999"):
        partition_texts(pa.chunked_array([pa.array([2_932_897], pa.date32())]))


def test_directories_of_partitions_are_named_as_hive_names_them() -> None:
    names = [directory({"p": each}) for each in ("New York", "Zürich", "a/b", "100%", None)]
    assert names == ["p=New%20York/", "p=Zürich/", "p=a%2Fb/", "p=100%25/", "p=__HIVE_DEFAULT_PARTITION__/"]


def test_the_last_time_of_a_year_9999_and_times_beyond_have_no_upper_bound() -> None:
    for micros in (253_402_300_799_999_999, 253_402_300_800_000_000):
        table = pa.table({"valid_to": pa.array([0, micros], pa.timestamp("us", "UTC"))})
        found = statistics(footer(table), table.schema)
        assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({}, {}, {"valid_to": 0})
    first = pa.table({"at": pa.array([-62_135_596_800_000_000], pa.timestamp("us"))})
    assert statistics(footer(first), first.schema)["minValues"] == {"at": "0001-01-01T00:00:00.000"}


def test_the_first_error_of_a_block_is_the_one_that_is_raised() -> None:
    class Full(OSError):
        """The storage has no room."""

    class Stream(io.BytesIO):
        def write(self, _: object) -> int:
            raise Full

    class Places:
        def open_output_stream(self, _: str) -> Stream:
            return Stream()

        def delete_file(self, path: str) -> None:
            raise RuntimeError(path)

    plan = FilePlan(pa.schema([("id", pa.int64())]), (), 1)
    with pytest.raises(Full), FileWriter(plan, Places()) as files:
        files.add(pa.record_batch({"id": [1, 2, 3]}))


def test_statistics_bound_what_is_in_the_file() -> None:
    table = pa.table(
        {
            "id": pa.array([3, None, 1, 2]),
            "name": ["b", "a", None, "c"],
            "long": ["x" * 100] * 4,
            "at": pa.array([1_001, 2_002, 3_003, 4_004], pa.timestamp("us", "UTC")),
            "none": pa.nulls(4, pa.int32()),
            "wrong": [1.0, float("inf"), 2.0, 3.0],
            "raw": [b"1", b"2", b"3", b"4"],
            "nested": [{"a": 1}] * 4,
        }
    )
    found = statistics(footer(table, 2), table.schema)
    assert found["numRecords"] == 4
    assert found["minValues"] == {"id": 1, "name": "a", "at": "1970-01-01T00:00:00.001Z"}
    assert found["maxValues"] == {"id": 3, "name": "c", "at": "1970-01-01T00:00:00.005Z"}
    assert found["nullCount"] == {"id": 1, "name": 1, "long": 0, "at": 0, "none": 4, "wrong": 0, "raw": 0}
