"""Merges while others put the files of the same table together: each change counts, as in a replay of all of them.

By delta-rs, and by Delta's and Iceberg's jars for Spark, which rewrite every file each time.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from interop.postgres import Postgres
from interop.spark_versions import OF_TABLES, python_with
from tests.spark.lake import ArrowFrame, rows_in, step
from tests.spark.merging import require_replay
from tests.unit.spark.tables.changes.test_row_change import rows

from kohort.model.ids import TopicPartition
from kohort.spark.tables import DeltaLakeTable, IcebergTable
from kohort.spark.tables.changes.row_change import Change

pytestmark = [pytest.mark.timeout(900), pytest.mark.spark]

ROOT = Path(__file__).parents[2]
P = TopicPartition("t", 0)
COMPACTIONS = 8
"""How often files are put together before the merges end."""


def check(table: Any, lines: Iterator[str], *, is_history: bool) -> None:
    """Change rows beside a compactor, which prints `begins` and `did` or `refused`; then compare all with a replay.

    In some of its turns no merge is faster than it, so that both succeed.
    """
    change = Change(("id",), ("at",), is_history=is_history)
    chance = random.Random(7)
    done: list[tuple[Any, ...]] = []

    def merge() -> None:
        first = chance.choice([0, 100 + 10 * len(done)])  # rounds that change files, and rounds that add some
        some = [
            (
                first + chance.randrange(40),
                10_000 * len(done) + chance.randrange(-50_000, 50_000) * 10 + number,
                "v",
                gone,
            )
            for number, gone in enumerate(chance.random() < 0.2 for _ in range(8))
        ]
        table.merge(ArrowFrame(rows(*some)), "g", {P: step(len(done) or None, len(done) + len(some))}, change)
        done.extend(some)

    seen: list[str] = []
    for _ in range(6):
        merge()
    while sum(each.startswith("did") for each in seen) < COMPACTIONS:
        seen.append(next(lines))
        for _ in range(chance.randrange(4) if seen[-1].startswith("begins") else 0):
            merge()
    require_replay(rows_in(table), done, is_history=is_history)


@contextmanager
def by_spark(folder: Path, *arguments: str) -> Iterator[Iterator[str]]:
    """Let Spark put files together, again and again, and yield what it prints."""
    with subprocess.Popen(
        [str(python_with(OF_TABLES)), "-m", "tests.interop.compacting_by_spark", str(folder), *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield iter(process.stdout)
        process.stdin.close()
        process.stdout.read()
    assert process.returncode == 0


@pytest.mark.parametrize("is_history", [False, True], ids=["rows", "history"])
def test_a_delta_table_is_compacted_by_delta_rs(tmp_path: Path, is_history: bool) -> None:
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError, TableNotFoundError

    table = DeltaLakeTable(str(tmp_path / "t"))
    lines: Queue[str] = Queue(1)  # no turn begins before the last one was seen
    ended = Event()

    def compact() -> None:
        while not ended.is_set():
            lines.put("begins")
            try:
                if DeltaTable(table.uri).optimize.compact()["numFilesRemoved"]:
                    lines.put("did")
            except (CommitFailedError, TableNotFoundError):
                lines.put("refused")

    compactor = Thread(target=compact)
    compactor.start()
    try:
        check(table, iter(lines.get, None), is_history=is_history)
    finally:
        ended.set()
        while compactor.is_alive():
            with suppress(Empty):
                lines.get(timeout=0.1)


def test_a_delta_table_is_optimized_by_spark(tmp_path: Path) -> None:
    with by_spark(tmp_path, f"OPTIMIZE delta.`{tmp_path}/t`") as lines:
        check(DeltaLakeTable(str(tmp_path / "t")), lines, is_history=False)


@pytest.mark.parametrize("is_history", [False, True], ids=["rows", "history"])
def test_an_iceberg_table_is_rewritten_by_spark(tmp_path: Path, is_history: bool) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    pytest.importorskip("psycopg")
    statement = "CALL lake.system.rewrite_data_files(table => 'air.t', options => map('rewrite-all', 'true'))"
    with Postgres() as postgres:
        server = f"127.0.0.1:{postgres.port}/postgres"
        catalog = SqlCatalog("lake", uri=f"postgresql+psycopg://kohort@{server}", warehouse=tmp_path.as_uri())
        catalog.create_namespace_if_not_exists("air")
        with by_spark(tmp_path, statement, f"jdbc:postgresql://{server}") as lines:
            check(IcebergTable("air.t", catalog=catalog), lines, is_history=is_history)
