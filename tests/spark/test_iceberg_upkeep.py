"""What commits of an Iceberg table leave behind: manifests, files of metadata, snapshots; no session is needed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.lake import lake_table, rows_in, step, stored

from kohort.model.ids import TopicPartition
from kohort.spark.tables import IcebergTable, iceberg
from kohort.spark.tables.changes.row_change import DELETED, Change

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

P = TopicPartition("flights", 0)
COMMITS = 16
FEW = {"commit.manifest.min-count-to-merge": "4", "write.metadata.previous-versions-max": "3"}


def filled(folder: Path, **settings: Any) -> IcebergTable:
    """Return a table after some commits, whose rows and offsets are as they should be."""
    table: IcebergTable = lake_table("iceberg", folder, **settings)
    for number in range(COMMITS):
        table.append(pa.table({"id": [number]}), "g", {P: step(number or None, number + 1)})
    assert sorted(row["id"] for row in rows_in(table)) == list(range(COMMITS))
    assert stored(table, "g", [P]) == {P: COMMITS}
    return table


def manifests(table: IcebergTable) -> int:
    found = table.catalog.load_table(table.name)
    return len(found.current_snapshot().manifests(found.io))


def snapshots(table: IcebergTable) -> int:
    return len(table.catalog.load_table(table.name).metadata.snapshots)


def test_manifests_are_merged_and_old_files_of_metadata_are_removed(tmp_path: Path) -> None:
    table = filled(tmp_path, table_properties=FEW)
    assert manifests(table) <= 4
    assert len(list(tmp_path.rglob("*.metadata.json"))) == 4
    assert snapshots(table) == COMMITS


def test_what_is_merged_and_removed_is_what_the_properties_of_the_table_allow(tmp_path: Path) -> None:
    never = {"commit.manifest-merge.enabled": "false", "write.metadata.delete-after-commit.enabled": "false"}
    table = filled(tmp_path, table_properties=FEW | never)
    assert manifests(table) == COMMITS
    assert len(list(tmp_path.rglob("*.metadata.json"))) > COMMITS


def test_snapshots_are_expired_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg, "_COMMITS_BETWEEN_EXPIRIES", 5)
    assert snapshots(filled(tmp_path, expire_after=timedelta(0))) <= 6


def test_merges_of_the_same_keys_leave_one_file_and_no_manifest_of_removed_ones(tmp_path: Path) -> None:
    table: IcebergTable = lake_table("iceberg", tmp_path)
    change = Change(("id",), ("number",))
    for number in range(4):
        rows = pa.table({"id": [number, 7, 8], "number": [number] * 3, DELETED: [False] * 3})
        table.merge(rows, "g", {P: step(3 * number or None, 3 * number + 3)}, change)
    assert len(list(table.catalog.load_table(table.name).scan().plan_files())) == 1
    assert manifests(table) <= 2
    assert sorted((row["id"], row["number"]) for row in rows_in(table)) == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (7, 3),
        (8, 3),
    ]
