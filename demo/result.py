"""The pipeline's result: a Delta table with one row for each flight, read as others would read it, by Polars.

Each row has the place of its record, so that what was sent can be held against what is there, row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
from deltalake import DeltaTable

from demo.flights import Group, Totals


@dataclass(slots=True)
class Result:
    """What the table holds. `stored` are offset and source row number of each row, by partition."""

    totals: dict[Group, Totals]
    stored: dict[int, list[tuple[int, int]]]
    commits: int = 0
    files: int = 0
    unnamed_files: int = 0
    """Files of rounds that were cut off or refused, which no version of the table names."""

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return sum(map(len, self.stored.values()))


def read_result(directory: Path) -> Result:
    """Read the table."""
    table = DeltaTable(str(directory))
    rows = pl.read_delta(str(directory))
    sums = rows.group_by(Group._fields).agg(
        pl.len().alias("flights"),
        pl.col("dep_time").is_null().sum().alias("cancelled"),
        pl.col("dep_delay").count().alias("departed"),
        pl.col("dep_delay").cast(pl.Int64).sum().alias("departure_delay_min"),
        pl.col("arr_delay").count().alias("arrived"),
        pl.col("arr_delay").cast(pl.Int64).sum().alias("arrival_delay_min"),
    )
    stored: dict[int, list[tuple[int, int]]] = {}
    for partition, offset, number in rows.select("partition", "offset", "id").sort("partition", "offset").iter_rows():
        stored.setdefault(partition, []).append((offset, number))
    named = {Path(uri).name for uri in table.file_uris()}
    return Result(
        totals={
            Group(*row[: len(Group._fields)]): Totals(*row[len(Group._fields) :])
            for row in sums.select(*Group._fields, *Totals._fields).iter_rows()
        },
        stored=stored,
        commits=table.version() + 1,
        files=len(named),
        unnamed_files=sum(path.name not in named for path in directory.glob("*.parquet")),
    )
