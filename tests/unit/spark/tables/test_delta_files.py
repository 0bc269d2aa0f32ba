"""Files of a Delta table: rows by partition, and the statistics by which readers skip files."""

from __future__ import annotations

import io
from datetime import date, datetime
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from kohort.spark.tables.delta_files import by_partition, partition_value, repetitive, statistics


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
    assert found == {("nan",): [0, 2], ("1.0",): [1], (None,): [3]}


def test_columns_whose_values_repeat_have_a_dictionary() -> None:
    rows = pa.table({"id": range(4), "topic": ["t"] * 4, "none": pa.nulls(4, pa.binary()), "half": [1, 1, 2, 2]})
    assert repetitive(rows) == ["topic", "none", "half"]
    assert repetitive(rows.append_column("nested", [[{"a": 1}] * 4])) is True
    assert repetitive(pa.table({"x": [float("nan")] * 4, "y": [1.5, 2.5, 3.5, 4.5]})) == ["x"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (7, "7"),
        ("", None),
        (None, None),
        (date(2026, 11, 23), "2026-11-23"),
        (datetime(2026, 11, 23, 1, 2, 3, 4), "2026-11-23 01:02:03.000004"),
    ],
)
def test_partition_values_are_those_of_the_protocol(value: object, text: str | None) -> None:
    assert partition_value(value) == text


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
