"""`exactly_once(table, merge_on=…)`: changes of a topic become the rows that a replay in plain Python has."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.spark.lake import KINDS, lake_table, rows_in

from kohort.spark import exactly_once
from kohort.spark.tables.changes.row_change import BadChange

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROW = "id BIGINT, name STRING"


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return lake_table(request.param, tmp_path, "customers")


def records(spark, *values: tuple[Any, Any], start: int = 0):
    """Return a frame of records, with JSON keys and values."""

    def text(value: Any) -> bytes | None:
        return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()

    rows = [("c", 0, start + at, text(key), text(value)) for at, (key, value) in enumerate(values)]
    return spark.createDataFrame(rows, "topic string, partition int, offset bigint, key binary, value binary")


def change(op: str, key: int, name: str | None = None, ts_ms: int = 0) -> tuple[Any, Any]:
    row = {"id": key, "name": name}
    before, after = (row, None) if op == "d" else (None, row)
    return {"id": key}, {"before": before, "after": after, "op": op, "ts_ms": ts_ms, "source": {"lsn": 1}}


def wrapped(key: Any, value: Any) -> tuple[Any, Any]:
    return {"schema": {}, "payload": key}, value and {"schema": {}, "payload": value}


def names_in(table) -> dict[int, str]:
    found = [(row["id"], row["name"]) for row in rows_in(table)]
    assert len(found) == len(dict(found)), "a key has one row"
    return dict(found)


def test_debezium_records_are_replayed_with_and_without_their_schemas(spark, table):
    chance = random.Random(3)
    store = exactly_once(table, merge_on="id", envelope="debezium", schema=ROW, group="g")
    expected: dict[int, str] = {}
    at = 0
    for number in range(4):
        batch = []
        for _ in range(12):
            key, name = chance.randrange(5), f"n{chance.random()}"
            if chance.random() < 0.3:
                expected.pop(key, None)
                changes = [change("d", key), ({"id": key}, None)]
            else:
                expected[key] = name
                changes = [change(chance.choice("cur"), key, name)]
            batch += [wrapped(*each) if chance.random() < 0.5 else each for each in changes]
        frame = records(spark, *batch, start=at)
        at += len(batch)
        store(frame, number)
        store(frame, number)  # a batch that is repeated
    assert names_in(table) == expected
    assert set(rows_in(table)[0]) == {"id", "name"}


def test_late_changes_and_deletions_with_an_order(spark, table):
    store = exactly_once(table, merge_on=["id"], order="__ts_ms", envelope="debezium", schema=ROW, group="g")
    store(records(spark, change("c", 1, "new", 10), change("c", 1, "old", 5), change("d", 2, ts_ms=9)), 0)
    store(records(spark, change("u", 1, "older", 9), change("c", 2, "dead", 8), ({"id": 3}, None), start=3), 1)
    assert names_in(table) == {1: "new"}
    store(records(spark, change("c", 2, "again", 11), change("d", 1, ts_ms=10), start=6), 2)
    assert names_in(table) == {2: "again"}


def test_a_history_has_every_version_and_late_ones_in_the_middle(spark, table):
    store = exactly_once(
        table, merge_on=["id"], order="__ts_ms", envelope="debezium", schema=ROW, group="g", history=True
    )
    store(records(spark, change("c", 1, "a", 10), change("u", 1, "c", 30)), 0)
    store(records(spark, change("u", 1, "b", 20), change("d", 1, ts_ms=40), ({"id": 1}, None), start=2), 1)
    found = sorted((row["valid_from"], row["valid_to"], row["name"], row["is_current"]) for row in rows_in(table))
    assert found == [(10, 20, "a", False), (20, 30, "b", False), (30, 40, "c", False)]


def test_plain_rows_with_a_condition_and_odd_names(spark, table):
    def rows(frame):
        parsed = "from_json(cast(value AS string), 'k STRING, v STRING, op STRING')"
        odd = frame.selectExpr("*", f"{parsed} AS row").selectExpr(
            "row.k AS `the.key`", 'row.v AS `a "b" c`', "row.op AS __op", "topic", "partition", "offset"
        )
        return odd.withColumnsRenamed({each: f"__{each}" for each in ("topic", "partition", "offset")})

    store = exactly_once(table, rows, merge_on=["the.key"], delete="__op = 'd'", group="g")
    store(records(spark, *[(None, {"k": k, "v": v}) for k, v in (("x", "1"), ("it's", "2"), ("x", "3"))]), 0)
    store(records(spark, (None, {"k": "it's", "op": "d"}), (None, {"k": "none", "op": "d"}), start=3), 1)
    store(records(spark, (None, {"k": "none", "op": "d"}), start=5), 2)
    assert rows_in(table) == [{"the.key": "x", 'a "b" c': "3"}]


def test_a_plain_envelope_has_rows_tombstones_and_bare_keys(spark, table):
    store = exactly_once(table, merge_on="id", envelope="plain", schema=ROW, group="g")
    store(records(spark, (1, {"id": 1, "name": "a"}), (2, {"id": 2, "name": "b"}), (1, None), ({"id": 9}, None)), 0)
    assert names_in(table) == {2: "b"}


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (({"id": 1}, {"op": "t"}), "c-0, offset 0: op t: the source table was truncated"),
        (({"id": 1}, {"op": "m"}), "its op is none of c, u, r and d: m"),
        (({"id": 1}, b"{nonsense"), "its value is no JSON"),
        ((None, None), "the column id of the key is null"),
    ],
)
def test_records_that_are_no_changes_end_the_job_in_a_sentence(spark, tmp_path, record, text):
    table = lake_table("delta", tmp_path, "customers")
    store = exactly_once(table, merge_on=["id"], envelope="debezium", schema=ROW, group="g")
    with pytest.raises(BadChange, match=text):
        store(records(spark, record), 0)
    assert rows_in(table) == []


def test_what_does_not_belong_together_is_refused(tmp_path):
    class Own:
        """A table with two methods."""

        def offsets(self, *_: Any) -> dict:
            return {}

        def append(self, *_: Any) -> None:
            pass

    with pytest.raises(TypeError, match=r"merge\(frame, group, steps, change\)"):
        exactly_once(Own(), merge_on=["id"])
    table = lake_table("delta", tmp_path, "customers")
    with pytest.raises(ValueError, match="are for merge_on"):
        exactly_once(table, order="at")
    with pytest.raises(ValueError, match="shows what deletes"):
        exactly_once(table, merge_on="id", delete="x", envelope="plain")
