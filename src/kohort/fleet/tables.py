"""The tables of a fleet as Parquet files, published by renaming a manifest into place.

A run writes only into directories of its own (`silver/events/run=12/day=…`), which the manifest does not name yet. It
is published by one rename of `state/manifest.json`, which names the parts of every table and the offsets up to which
each input was read: rows, folded state and positions change together or not at all. The files of a run that crashed
and the parts that a run replaced are removed by the next run, so that readers of the previous manifest can finish.
One run at a time holds the lock. See docs/decisions/0057.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.fleet.schema import OWNERSHIP, STATE_OPEN, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

VERSION = 1
MANIFEST = "state/manifest.json"


class TablesBroken(ValueError):
    """The manifest of the tables cannot be read; the text gives the reason and what to do."""


class TablesBusy(RuntimeError):
    """Another run works on these tables."""


class Tables:
    """The published tables under one directory."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Open what is published in a directory, which need not exist yet. Raises TablesBroken."""
        self.directory = Path(directory).absolute()
        self.run = 0
        """The number of the last run that was published, 0 when none was."""
        self.parts: dict[str, list[str]] = {}
        """By the path of a table, its published directories."""
        self.positions: dict[str, dict[int, int]] = {}
        """By source and partition, the offset at which the next run begins."""
        self.refresh()

    def refresh(self) -> None:
        """Read the manifest again. Raises TablesBroken."""
        manifest = self._read()
        self.run, self.parts = manifest["run"], manifest["tables"]
        self.positions = {
            source: {int(partition): offset for partition, offset in offsets.items()}
            for source, offsets in manifest["positions"].items()
        }

    def _read(self) -> dict[str, Any]:
        path = self.directory / MANIFEST
        try:
            manifest: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            return {"version": VERSION, "run": 0, "tables": {}, "positions": {}}
        except ValueError as error:
            raise TablesBroken(
                f"{path} is not JSON ({error}): restore it, or remove the directory and run anew"
            ) from error
        version = manifest.get("version") if isinstance(manifest, dict) else None
        if version != VERSION:
            raise TablesBroken(f"{path} has version {version}, this kohort reads {VERSION}")
        return manifest

    def frame(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return a table as a DataFrame with exactly its columns."""
        return _frame(spark, self.directory, self.parts, table)

    def files(self, path: str) -> list[Path]:
        """Return the published files of a table, which is given by its path."""
        return _files(self.directory / path, self.parts.get(path, ()))

    @contextmanager
    def begin(self) -> Iterator[Run]:
        """Lock the tables and begin a run; its files are invisible until it publishes. Raises TablesBusy."""
        (self.directory / "state").mkdir(parents=True, exist_ok=True)
        with (self.directory / "state" / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise TablesBusy(f"another run works on {self.directory}: wait until it is done") from error
            self.refresh()
            self._remove_unnamed()
            yield Run(self)

    def _remove_unnamed(self) -> None:
        """Remove files that the manifest does not name: of crashed runs, and of replaced parts."""
        named = {self.directory / path / part for path, parts in self.parts.items() for part in parts}
        for run in sorted(self.directory.glob("*/*/run=*")):
            if run in named:
                continue
            parts = sorted(run.glob("*=*"))
            for unnamed in [run] if named.isdisjoint(parts) else [part for part in parts if part not in named]:
                shutil.rmtree(unnamed)


class Run:
    """The files that one run writes, invisible to readers until `publish`."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.number = tables.run + 1
        self._parts = {path: list(parts) for path, parts in tables.parts.items()}

    def directory(self, table: Table) -> Path:
        """Return the directory into which this run writes a table's rows."""
        return self.tables.directory / table.path / f"run={self.number}"

    def frame(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return a table as it will be once this run is published."""
        return _frame(spark, self.tables.directory, self._parts, table)

    def written(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return the rows that this run wrote to a table."""
        return read_parts(spark, self.tables.directory / table.path, table, [self.directory(table)])

    def store(self, table: Table, rows: DataFrame) -> None:
        """Write rows into this run's directory of a table, without adding them to the table."""
        rows = rows.select(*table.names)
        writer = rows.write.mode("overwrite").option("compression", "zstd")
        if table.partitioned_by:
            writer = writer.partitionBy(*table.partitioned_by)
        writer.parquet(str(self.directory(table)))

    def discard(self, table: Table) -> None:
        """Remove what this run wrote into its directory of a table."""
        shutil.rmtree(self.directory(table), ignore_errors=True)

    def store_arrow(self, table: Table, rows: pa.Table) -> None:
        """Write a few rows into this run's directory of a table without Spark, without adding them to the table."""
        from pyarrow import parquet

        directory = self.directory(table)
        directory.mkdir(parents=True)
        parquet.write_table(rows.cast(table.arrow()), directory / "part-0.parquet", compression="zstd")

    def store_small(self, table: Table, rows: list[dict[str, Any]]) -> None:
        """Write a few rows like `store_arrow`; a column that a row does not have is null."""
        import pyarrow as pa

        self.store_arrow(table, pa.Table.from_pylist(rows, schema=table.arrow()))

    def small_rows(self, table: Table) -> list[dict[str, Any]]:
        """Return a small table as it will be once this run is published, without Spark."""
        return small_rows(self._files(table), table)

    def is_empty(self, table: Table) -> bool:
        """Whether a table will have no rows once this run is published."""
        from pyarrow import parquet

        return not any(parquet.read_metadata(file).num_rows for file in self._files(table))

    def _files(self, table: Table) -> list[Path]:
        return _files(self.tables.directory / table.path, self._parts.get(table.path, ()))

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows to a table."""
        self.store(table, rows)
        self.adopt(table)

    def adopt(self, table: Table) -> None:
        """Add the rows in this run's directory of a table to the table."""
        self._parts.setdefault(table.path, []).append(f"run={self.number}")

    def replace(self, table: Table, rows: DataFrame) -> None:
        """Replace all rows of a table."""
        self.store(table, rows)
        self.put(table)

    def put(self, table: Table) -> None:
        """Replace all rows of a table by those in this run's directory."""
        self._parts[table.path] = [f"run={self.number}"]

    def put_days(self, table: Table) -> None:
        """Replace the days that are in this run's directory of a table; keep other days."""
        written = sorted(part.name for part in self.directory(table).glob("day=*"))
        stay = [part for part in self._parts.get(table.path, []) if part.partition("/")[2] not in written]
        self._parts[table.path] = stay + [f"run={self.number}/{day}" for day in written]

    def publish(self, positions: Mapping[str, Mapping[int, int]]) -> None:
        """Publish the rows of this run, and the offsets up to which it read each source."""
        merged = {source: dict(offsets) for source, offsets in self.tables.positions.items()}
        for source, offsets in positions.items():
            merged.setdefault(source, {}).update(offsets)
        manifest = {"version": VERSION, "run": self.number, "tables": self._parts, "positions": merged}
        _rename_into_place(self.tables.directory / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True))
        self.tables.run, self.tables.parts, self.tables.positions = self.number, self._parts, merged


def _frame(spark: SparkSession, directory: Path, parts: Mapping[str, Sequence[str]], table: Table) -> DataFrame:
    base = directory / table.path
    rows = read_parts(spark, base, table, [base / part for part in parts.get(table.path, ())])
    if table is OWNERSHIP:
        rows = rows.unionByName(_frame(spark, directory, parts, STATE_OPEN))
    return rows


def _files(base: Path, parts: Iterable[str]) -> list[Path]:
    return [file for part in parts for file in sorted((base / part).rglob("*.parquet"))]


def small_rows(files: Iterable[Path], table: Table) -> list[dict[str, Any]]:
    """Return the rows in files of a table, with the columns that each contains."""
    from pyarrow import parquet

    found: list[dict[str, Any]] = []
    for file in files:
        stored = parquet.ParquetFile(file)
        names = [name for name in table.names if name in stored.schema_arrow.names]
        found += stored.read(columns=names).to_pylist()
    return found


def read_parts(spark: SparkSession, base: Path, table: Table, paths: Iterable[Path]) -> DataFrame:
    """Return the rows in these directories of a table, which are partitioned as it is."""
    found = [str(path) for path in paths if any(path.rglob("*.parquet"))]
    if not found:
        return spark.createDataFrame([], table.ddl)
    return spark.read.schema(table.ddl).option("basePath", str(base)).parquet(*found).select(*table.names)


def _rename_into_place(path: Path, content: str) -> None:
    beside = path.with_suffix(".next")
    with beside.open("w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
