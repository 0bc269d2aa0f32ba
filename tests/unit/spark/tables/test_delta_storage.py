"""What is reported of a Delta table's storage, and where its files go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from kohort.spark.tables.delta_files import FilePlan
from kohort.spark.tables.delta_log import commit_path
from kohort.spark.tables.delta_storage import (
    DeltaPlan,
    DeltaStorage,
    commit_files,
    delta_schema,
    reason_of,
    rows_of_keys,
)
from kohort.spark.tables.table import TableBroken

ARROW = "\n     \x1b[31m↳\x1b[0m "
ANSWER = (
    '<?xml version="1.0"?>\n<Error><Code>NoSuchBucket</Code><Message>The bucket does not exist.</Message></Error>\n'
)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("Kernel error -> Generic S3 error" + ARROW + "404 Not Found" + ARROW + ANSWER, "The bucket does not exist."),
        ("Generic S3 error" + ARROW + "Error performing GET" + ARROW + "Connection refused", "Connection refused"),
    ],
)
def test_an_error_of_a_storage_is_one_line_with_its_answer(error: str, reason: str) -> None:
    assert reason_of(OSError(error)) == f"Generic S3 error: {reason}"


def test_an_error_without_a_cause_is_its_first_line() -> None:
    assert reason_of(OSError("no space left\nError: Os { code: 28 }")) == "no space left"


def test_a_failure_of_the_storage_names_the_table(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a file where a table should be")
    storage = DeltaStorage(f"{tmp_path}/t")
    plan = DeltaPlan(storage, FilePlan(pa.schema([("x", pa.int64())]), (), 1 << 20))
    with pytest.raises(TableBroken, match=rf"^{storage.uri}: "), storage.failures():
        plan.write([pa.RecordBatch.from_pydict({"x": [1]})])


@pytest.mark.parametrize("interval", [1000, 3])
def test_transactions_are_those_of_the_checkpoint_and_of_the_commits_since(tmp_path: Path, interval: int) -> None:
    storage = DeltaStorage(f"{tmp_path}/t")
    schema = pa.schema([("x", pa.int64())])
    storage.create(delta_schema(schema, "t"), (), {"delta.checkpointInterval": str(interval)})
    table = storage.open()
    for number in range(8):
        commit_files(table, [], {"last": number, f"one {number}": 7}, f"mark {number}")
        table.update_incremental()
    newest = table.version()
    expected = {"last": 7, **{f"one {number}": 7 for number in range(8)}}
    assert (tmp_path / "t/_delta_log/_last_checkpoint").exists() == (interval == 3)
    assert storage.transactions(newest) == expected
    assert all(table.transaction_version(name) == at for name, at in expected.items())


def test_transactions_without_the_commits_that_made_them_are_not_known(tmp_path: Path) -> None:
    storage = DeltaStorage(f"{tmp_path}/t")
    storage.create(delta_schema(pa.schema([("x", pa.int64())]), "t"), (), {})
    table = storage.open()
    commit_files(table, [], {"app": 1}, "mark")
    table.update_incremental()
    (tmp_path / "t" / commit_path(0)).unlink()
    assert storage.transactions(table.version()) is None


def test_rows_of_keys_are_found_where_a_file_has_no_bounds_of_them(tmp_path: Path) -> None:
    """delta-rs 1.6 takes a bound that is not in the log for null, by which its dataset finds no row."""
    columns = {
        "number": pa.array([1.5, float("nan"), None]),
        "raw": [b"a", b"b", None],
        "text": ["x" * 10_000, "y" * 65, None],
        "at": pa.array([253_402_300_800_000_000, 0, None], pa.timestamp("us", "UTC")),  # of the year 10000
    }
    rows = pa.table({"id": range(3), **columns})
    storage = DeltaStorage(f"{tmp_path}/t")
    storage.create(delta_schema(rows.schema, "t"), (), {})
    files = DeltaPlan(storage, FilePlan(rows.schema, (), 1 << 20)).write(rows.to_batches())
    commit_files(storage.open(), files, {}, "m")
    bare = [replace(each, path="other.parquet", stats='{"numRecords": 3, "minValues": {"id": 0}}') for each in files]
    (tmp_path / "t/other.parquet").write_bytes((tmp_path / "t" / files[0].path).read_bytes())
    commit_files(storage.open(), bare, {}, "n")
    for name in columns:
        assert rows_of_keys(storage.open(), rows.slice(0, 1), [name])["id"].to_pylist() == [0, 0], name
