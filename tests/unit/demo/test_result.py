"""The demo's table, read as others read it."""

from __future__ import annotations

from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("polars")
deltalake = pytest.importorskip("deltalake")

from demo.flights import Group, Totals  # noqa: E402
from demo.result import read_result  # noqa: E402

SCHEMA = {"id": pa.int64(), "origin": pa.string(), "carrier": pa.string(), "month": pa.int32()}
SCHEMA |= {"dep_time": pa.int32(), "dep_delay": pa.int32(), "arr_delay": pa.int32()}
SCHEMA |= {"partition": pa.int32(), "offset": pa.int64()}
JFK, LGA = ("JFK", "B6", 1), ("LGA", "DL", 2)


def store(folder: Path, *rows: tuple[object, ...]) -> None:
    columns = [dict(zip(SCHEMA, row, strict=True)) for row in rows]
    deltalake.write_deltalake(str(folder), pa.Table.from_pylist(columns, schema=pa.schema(SCHEMA)), mode="append")


def test_totals_are_those_of_the_rows_and_a_cancelled_flight_has_no_delay(tmp_path: Path) -> None:
    store(tmp_path, (7, *JFK, 830, 5, -3, 0, 0), (8, *JFK, None, None, None, 0, 1))
    store(tmp_path, (9, *LGA, 900, -2, None, 1, 0))
    result = read_result(tmp_path)
    assert result.totals == {Group(*JFK): Totals(2, 1, 1, 5, 1, -3), Group(*LGA): Totals(1, 0, 1, -2, 0, 0)}
    assert result.stored == {0: [(0, 7), (1, 8)], 1: [(0, 9)]}
    assert (result.rows, result.commits, result.files) == (3, 2, 2)


def test_files_that_no_version_names_are_counted_beside_the_table(tmp_path: Path) -> None:
    store(tmp_path, (7, *JFK, 830, 5, -3, 0, 0))
    (tmp_path / "part-of-a-lost-round.parquet").write_bytes(b"")
    result = read_result(tmp_path)
    assert (result.rows, result.files, result.unnamed_files) == (1, 1, 1)
