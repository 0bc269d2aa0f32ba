"""What is reported of a Delta table's storage, and where its files go."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kohort.spark.tables.delta_files import FilePlan
from kohort.spark.tables.delta_storage import DeltaPlan, DeltaStorage, reason_of
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
