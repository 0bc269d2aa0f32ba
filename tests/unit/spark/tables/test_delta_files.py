"""Files of a Delta table: rows by partition, and the statistics by which readers skip files."""

from __future__ import annotations

import io
import json
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
    Floats,
    add_floats,
    by_partition,
    directory,
    partition_texts,
    repetitive,
    statistics,
    without_floats,
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


def test_the_last_time_of_the_year_9999_is_a_bound_and_times_beyond_are_none() -> None:
    low = {"valid_to": "1970-01-01T00:00:00.000Z"}
    for micros, bounds in (
        (253_402_300_799_999_999, (low, {"valid_to": "9999-12-31T23:59:59.999999Z"})),
        (253_402_300_800_000_000, ({}, {})),
    ):
        table = pa.table({"valid_to": pa.array([0, micros], pa.timestamp("us", "UTC"))})
        found = statistics(footer(table), table.schema, {})
        assert (found["minValues"], found["maxValues"], found["nullCount"]) == (*bounds, {"valid_to": 0})
    first = pa.table({"at": pa.array([-62_135_596_800_000_000], pa.timestamp("us"))})
    assert statistics(footer(first), first.schema, {})["minValues"] == {"at": "0001-01-01T00:00:00.000"}


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
            "longer": ["y" * 10_000] * 4,
            "at": pa.array([1_001, 2_002, 3_003, 4_004], pa.timestamp("us", "UTC")),
            "none": pa.nulls(4, pa.int32()),
            "price": pa.array([Decimal("1.5"), Decimal(-2), None, Decimal(0)], pa.decimal128(38, 2)),
            "is": [True, False, None, None],
            "raw": [b"1", b"2", b"3", b"4"],
            "gone": pa.nulls(4, pa.struct([("x", pa.int32())])),
            "before": [{"a": 1, "b": {"c": "x", "many": [1]}}, {"a": None, "b": None}, None, {"a": 3, "b": {"c": "w"}}],
        }
    )
    found = statistics(footer(table, 2), table.schema, {})
    assert found["numRecords"] == 4
    low = {"id": 1, "name": "a", "long": "x" * 64, "longer": "", "at": "1970-01-01T00:00:00.001Z", "is": False}
    assert found["minValues"] == {**low, "price": Decimal(-2), "gone": {}, "before": {"a": 1, "b": {"c": "w"}}}
    assert found["maxValues"] == {
        "id": 3,
        "name": "c",
        "long": "x" * 64 + "\U0010ffff",
        "longer": "\U0010ffff" * 64,
        "at": "1970-01-01T00:00:00.005Z",
        "price": Decimal("1.5"),
        "is": True,
        "gone": {},
        "before": {"a": 3, "b": {"c": "x"}},
    }
    counts = {"id": 1, "name": 1, "long": 0, "longer": 0, "at": 0, "none": 4, "price": 1, "is": 2, "raw": 0}
    assert found["nullCount"] == {**counts, "gone": {"x": 4}, "before": {"a": 2, "b": {"c": 2}}}


def test_what_is_not_a_number_is_the_largest_and_no_statistics_of_parquet_leave_it_out() -> None:
    """Spark takes NaN for the largest number, and skipped files by bounds without it; -0.0 is less than 0.0 to some."""
    inf, nan = float("inf"), float("nan")
    batches = [{"x": [1.5, None, -inf]}, {"x": [nan, None, 2.5]}]
    for values, bounds in (
        (batches, (2, "-Infinity", "NaN")),
        (batches[:1], (1, "-Infinity", 1.5)),
        ([{"x": [nan]}], (0, "NaN", "NaN")),
        ([{"x": [inf, 0.0]}], (0, -0.0, "Infinity")),
    ):
        plan = FilePlan(pa.schema([("x", pa.float64()), ("id", pa.int64())]), (), 1)
        floats: Floats = {}
        for batch in values:
            add_floats(floats, pa.table(batch, schema=pa.schema([("x", pa.float64())])))
        rows = pa.table(
            {
                "x": [each for batch in values for each in batch["x"]],
                "id": [1] * sum(len(batch["x"]) for batch in values),
            }
        )
        sink = io.BytesIO()
        pq.write_table(rows, sink, write_statistics=without_floats(rows.schema))
        parquet = pq.read_metadata(io.BytesIO(sink.getvalue()))
        assert [parquet.row_group(0).column(at).is_stats_set for at in (0, 1)] == [False, True]
        stats = json.loads(plan.described("p", (), 1, parquet, floats).stats)
        assert (stats["nullCount"]["x"], stats["minValues"]["x"], stats["maxValues"]["x"]) == bounds
        assert stats["minValues"]["id"] == 1


def test_bounds_of_decimals_have_all_their_digits() -> None:
    most = Decimal("12345678901234567890123456789012345.678")
    rows = pa.table({"x": pa.array([most, most.copy_negate()], pa.decimal128(38, 3)), "text": ["\\ud8000"] * 2})
    stats = FilePlan(rows.schema, (), 1).described("p", (), 1, footer(rows), {}).stats
    assert f'"x": -{most}' in stats
    assert f'"x": {most}' in stats
    assert json.loads(stats)["minValues"]["text"] == "\\ud8000"
