"""Tables of a fleet as a run leaves them, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kohort.fleet.schema import Table
from kohort.fleet.tables import Run, Tables

Rows = Mapping[Table, Iterable[Mapping[str, Any]]]


def write(run: Run, rows: Rows) -> None:
    """Let a run add rows to partitioned tables, of `group_hours` replace days, and of the others all rows."""
    for table, some in rows.items():
        run.store_small(table, [dict(each) for each in some])
        if table.name == "group_hours":
            run.put_days(table)
        elif table.partitioned_by:
            run.adopt(table)
        else:
            run.put(table)


def publish(directory: Path, rows: Rows, positions: Mapping[str, Mapping[int, int]] | None = None) -> Tables:
    """Publish a run with these rows."""
    tables = Tables(directory)
    with tables.begin() as run:
        write(run, rows)
        run.publish(positions or {})
    return tables
