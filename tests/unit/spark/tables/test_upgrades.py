"""Tables that a version without ids of topics has written, and what it finds in those of this one."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from tests.spark.lake import catalog, lake_table, rows_in
from tests.unit.spark.tables.rows_of_spark import Frame

from kohort.model.ids import TopicPartition
from kohort.spark.tables import OffsetStep, Position, Table
from kohort.spark.tables.table import BATCHES, OtherTopic

P = TopicPartition("flights", 0)
BATCH = TopicPartition(f"{BATCHES}query", 0)
ID, ANOTHER = "x2Bb5r9XTf6Y0kqXG1oQzQ", "Ab3Kp0aTSzqPj2n1mVw9Lg"
OLD = pa.table({"x": list(range(10))})


def written_before(kind: str, folder: Path) -> Table:
    """Return a table with ten rows and the offset 10, in the form in which the older version has it."""
    if kind == "delta":
        offsets = CommitProperties(app_transactions=[Transaction("kohort/g/flights/0", 10)])
        write_deltalake(f"{folder}/flights", OLD, commit_properties=offsets)
    else:
        made = catalog(folder).create_table("air.flights", OLD.schema)
        made.append(OLD, {"kohort.offsets": '{"g":{"flights":{"0":10}}}', "kohort.mark": "5e1f"})
    table: Table = lake_table(kind, folder)
    return table


def add(table: Table, partition: TopicPartition, rows: int, topic_id: str, group: str = "g") -> None:
    found = table.offsets(group, [partition]).get(partition)
    first = found.offset if found else 0
    frame = Frame(first, first + rows)
    table.append(frame, group, {partition: OffsetStep(found, Position(first + rows, topic_id))})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_without_ids_is_read_on_from_and_gets_the_id_of_the_topic(kind: str, tmp_path: Path) -> None:
    table = written_before(kind, tmp_path)
    assert table.offsets("g", [P]) == {P: Position(10, None)}
    add(table, P, 10, ID)
    add(table, BATCH, 1, "8f1c-0d", group="name")
    assert len(rows_in(table)) == 21
    with pytest.raises(OtherTopic, match="it was created again"):
        add(table, P, 10, ANOTHER)


def test_an_older_version_finds_its_offsets_in_a_delta_table_and_moves_them(tmp_path: Path) -> None:
    """It knows one transaction for each partition, and leaves the others as they are."""
    table = lake_table("delta", tmp_path)
    add(table, P, 10, ID)
    folder = f"{tmp_path}/flights"
    assert DeltaTable(folder).transaction_version("kohort/g/flights/0") == 10
    moved = CommitProperties(app_transactions=[Transaction("kohort/g/flights/0", 20)])
    write_deltalake(folder, pa.table({"x": list(range(10, 20))}), mode="append", commit_properties=moved)
    add(table, P, 10, ID)
    assert sorted(row["x"] for row in rows_in(table)) == list(range(30))
    with pytest.raises(OtherTopic, match="it was created again"):
        add(table, P, 10, ANOTHER)


def test_an_older_version_finds_its_offsets_in_an_iceberg_table_and_moves_them(tmp_path: Path) -> None:
    """It changes one number in the JSON of the newest snapshot, and leaves the rest as it is."""
    table = lake_table("iceberg", tmp_path)
    add(table, P, 10, ID)
    loaded = catalog(tmp_path).load_table("air.flights")
    summary = loaded.current_snapshot().summary
    assert summary is not None
    offsets = json.loads(summary.additional_properties["kohort.offsets"])
    assert offsets["g"]["flights"] == {"0": 10}
    offsets["g"]["flights"]["0"] = 20
    loaded.append(pa.table({"x": list(range(10, 20))}), {"kohort.offsets": json.dumps(offsets), "kohort.mark": "5e1f"})
    add(table, P, 10, ID)
    assert sorted(row["x"] for row in rows_in(table)) == list(range(30))
    with pytest.raises(OtherTopic, match="it was created again"):
        add(table, P, 10, ANOTHER)
