"""Every type that Spark writes, with its odd values, in our Delta and Iceberg tables, read and filtered by others.

What a reader does not return as it was stored, by a full read or by a filter, it must not return out of the table of
Spark's own writer either. `tables_by_spark` has the applications, `value_matrix` the values and the readers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("polars")
pytest.importorskip("duckdb")

from interop.spark_versions import OF_TABLES, python_with
from interop.table import OF_READERS
from tests.interop.tables_by_spark import UNWRITTEN
from tests.interop.value_matrix import FORMATS, ROLES, UNSTORED, VALUES, is_refused

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.timeout(3600), pytest.mark.spark]
CELLS = [
    pytest.param(column, name, role, id=f"{column}, {name}, {role}")
    for name in VALUES
    for role in ROLES
    for column in OF_READERS.names
]


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was read of the types of the tests that run, and why others were refused."""
    folder = tmp_path_factory.mktemp("values")
    items = [each for each in request.session.items if each.path == request.path and isinstance(each, pytest.Function)]
    wanted = {str(each.callspec.params["name"]) for each in items} & VALUES.keys()
    for python, order in ((sys.executable, "write"), (python_with(OF_TABLES), "compare")):
        outcome = subprocess.run(
            [python, "-m", "tests.interop.tables_by_spark", order, str(folder), *sorted(wanted)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stderr[-6000:]
    read: dict[str, Any] = json.loads((folder / "cells.json").read_text())
    return {**read, **json.loads((folder / "refused.json").read_text())}


@pytest.mark.capability("values in tables", "`{name}` as {role}", broker="{column}")
@pytest.mark.parametrize(("column", "name", "role"), CELLS)
def test_a_reader_returns_and_finds_every_value_as_in_the_table_of_sparks_own_writer(
    found: dict[str, Any], request: pytest.FixtureRequest, column: str, name: str, role: str
) -> None:
    table = column.partition(":")[0]
    if is_refused(table, name, role):
        assert "value" in found[f"{table}|{name}|{role}"] or "10000" in found[f"{table}|{name}|{role}"]
        request.node.user_properties.append(("cell", "refused by name"))
        return
    cell = found[f"{column}|{name}|{role}"]
    ours, theirs = cell["ours"], cell["theirs"]
    is_written = not any(UNWRITTEN in each for each in theirs)
    if is_written:
        assert [each for each in ours if subject(each) not in set(map(subject, theirs))] == []
    if ours:
        beside = "as Spark's own" if is_written else "Spark's own writer has no such table"
        more = f", and {len(ours) - 1} more" if len(ours) > 1 else ""
        request.node.user_properties.append(("cell", f"{beside}: {ours[0]}{more}".replace("|", "/")))


def subject(fault: str) -> str:
    """Return the layout and the value or condition of a fault: one table may fail where another one finds nothing."""
    return re.split(" finds | fails: | read as ", fault)[0]


@pytest.mark.parametrize("name", UNSTORED)
@pytest.mark.parametrize("table", FORMATS)
def test_a_type_that_no_table_has_is_refused_by_name(found: dict[str, Any], table: str, name: str) -> None:
    assert "the column value is" in found[f"{table}|{name}|column"]
