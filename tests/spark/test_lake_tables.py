"""Delta and Iceberg tables under steps: what they take, what they refuse, and what others do to them meanwhile."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from tests.spark.lake import KINDS, catalog, lake_table, rows_in, step, stored

from kohort.model.ids import TopicPartition
from kohort.spark.tables import DeltaLakeTable, Fenced, IcebergTable, SchemaMismatch, Table, TableBroken
from kohort.spark.tables.delta import DeltaPlan

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

P, Q = TopicPartition("flights", 0), TopicPartition("flights", 1)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ids(table: Table) -> list[int]:
    return sorted(row["id"] for row in rows_in(table))


def files_in(folder: Path) -> set[Path]:
    return {each for each in folder.rglob("*.parquet") if "_delta_log" not in each.parts}


@pytest.mark.parametrize("rows_on_driver", [20_000, 0], ids=["driver", "tasks"])
def test_rows_and_offsets_come_together_and_the_same_step_is_refused_a_second_time(
    spark, kind, tmp_path, rows_on_driver
):
    table = lake_table(kind, tmp_path, rows_on_driver=rows_on_driver)
    assert stored(table, "g", [P, Q]) == {}
    steps = {P: step(None, 100), Q: step(None, 6)}
    table.append(spark.range(100), "g", steps)
    before = files_in(tmp_path)
    with pytest.raises(Fenced):
        table.append(spark.range(100), "g", steps)
    assert ids(table) == list(range(100))
    assert files_in(tmp_path) == before
    assert stored(table, "g", [P, Q]) == {P: 100, Q: 6}
    assert stored(table, "another", [P, Q]) == {}


def test_every_type_comes_back_as_it_was(spark, kind, tmp_path):
    table = lake_table(kind, tmp_path, rows_on_driver=0)
    frame = spark.sql(
        "SELECT 1 i, 2L l, 1.5F f, 2.5D d, 'ü' s, X'00FF' b, true t, DATE'2026-11-23' da, 1.25BD de,"
        " TIMESTAMP'2026-11-23 01:02:03.000004Z' ts, TIMESTAMP_NTZ'2026-11-23 01:02:03' ntz,"
        " array(1, NULL) a, map('k', named_struct('x', 1)) m, named_struct('y', array('z')) n"
    )
    table.append(frame, "g", {P: step(None, 1)})
    (row,) = rows_in(table)
    assert row == {
        "i": 1,
        "l": 2,
        "f": 1.5,
        "d": 2.5,
        "s": "ü",
        "b": b"\x00\xff",
        "t": True,
        "da": date(2026, 11, 23),
        "de": Decimal("1.25"),
        "ts": datetime(2026, 11, 23, 1, 2, 3, 4, UTC),
        "ntz": datetime(2026, 11, 23, 1, 2, 3),
        "a": [1, None],
        "m": [("k", {"x": 1})],
        "n": {"y": ["z"]},
    }


ENVELOPE = (
    "id bigint, before struct<id: bigint not null, name: string not null>,"
    " many array<struct<x: int not null>>, named map<string, struct<x: int not null>>"
)


@pytest.mark.parametrize("rows_on_driver", [20_000, 0], ids=["driver", "tasks"])
def test_nulls_stay_null_also_where_their_fields_are_required(spark, kind, tmp_path, rows_on_driver):
    """An envelope of Debezium has such a struct; a null array or map is no empty one."""
    polars = pytest.importorskip("polars")
    table = lake_table(kind, tmp_path, rows_on_driver=rows_on_driver)
    rows = [(1, None, None, None), (2, (7, "a"), [], {}), (3, (8, "b"), [(1,), None], {"k": (1,), "l": None})]
    steps = {P: step(None, 3)}
    frame = spark.createDataFrame(rows, ENVELOPE)
    table.append(frame.mapInArrow(lambda batches: batches, frame.schema), "g", steps)
    if kind == "iceberg":  # pyiceberg 0.12 reads null arrays of structs as empty ones
        found = polars.scan_iceberg(table.catalog.load_table(table.name)).collect().to_arrow().to_pylist()
    else:
        found = rows_in(table)
    found.sort(key=lambda row: row["id"])
    assert [row["before"] for row in found] == [None, {"id": 7, "name": "a"}, {"id": 8, "name": "b"}]
    assert [row["many"] for row in found] == [None, [], [{"x": 1}, None]]
    named = [
        row["named"] and dict(each.values() if isinstance(each, dict) else each for each in row["named"])
        for row in found
    ]
    assert named == [None, [], {"k": {"x": 1}, "l": None}]


def test_a_column_of_nulls_alone_is_refused_by_name_before_the_table_is_made(spark, kind, tmp_path):
    table = lake_table(kind, tmp_path)
    for column in ("NULL nothing", "array(NULL) nothing", "named_struct('x', NULL) nothing"):
        with pytest.raises(SchemaMismatch, match="nothing"):
            table.append(spark.range(1).selectExpr("id", column), "g", {P: step(None, 1)})
    assert table.offsets("g", [P]) == {}


UNSTORED = (
    "INTERVAL '1' DAY value",
    "INTERVAL '1' YEAR value",
    "parse_json('1') value",
)


@pytest.mark.parametrize("column", UNSTORED)
def test_types_that_a_table_has_not_are_refused_by_name(spark, kind, tmp_path, column):
    table = lake_table(kind, tmp_path)
    with pytest.raises(SchemaMismatch, match="value"):
        table.append(spark.range(1).selectExpr("id", column), "g", {P: step(None, 1)})
    assert rows_in(table) == []


@pytest.mark.parametrize("is_partition", [True, False], ids=["partition", "data"])
@pytest.mark.parametrize(
    ("kind_of_value", "values"),
    [
        ("string", ["'New York'", "'Zürich'", "'a/b'", "'%'", "'x=y'", "NULL"]),
        ("timestamp", ["TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'", "NULL"]),
        ("date", ["DATE'0001-01-01'", "DATE'9999-12-31'", "NULL"]),
        ("double", ["0D", "double('NaN')", "double('inf')", "-double('inf')", "NULL"]),
        ("decimal(20,10)", ["0.0000000001", "-1.5", "NULL"]),
    ],
)
def test_polars_and_the_libraries_read_and_find_every_value(spark, kind, tmp_path, kind_of_value, values, is_partition):
    polars = pytest.importorskip("polars")
    table = lake_table(kind, tmp_path, partition_by=["value"] if is_partition else [])
    rows = " UNION ALL ".join(
        f"SELECT {at}L id, CAST({each} AS {kind_of_value}) value" for at, each in enumerate(values)
    )
    frame = spark.sql(rows).coalesce(1)
    if (kind, kind_of_value, is_partition) == ("iceberg", "double", True):  # pyiceberg 0.12 reads them as floats
        with pytest.raises(SchemaMismatch, match="cannot be partitioned by value, double"):
            table.append(frame, "g", {P: step(None, len(values))})
        return
    table.append(frame, "g", {P: step(None, len(values))})
    wanted = polars.from_arrow(frame.toArrow()).sort("id")
    if kind == "delta":
        lazy = polars.scan_delta(table.uri)
    else:
        lazy = polars.scan_iceberg(table.catalog.load_table(table.name))
    assert lazy.collect().sort("id")["value"].equals(wanted["value"].cast(lazy.collect_schema()["value"]))
    assert len(rows_in(table)) == len(values)
    for at, value in zip(wanted["id"], wanted["value"], strict=True):
        column = polars.col("value")
        found = lazy.filter(column.is_null() if value is None else column == polars.lit(value)).collect()
        assert list(found["id"]) == [at], value


@pytest.mark.parametrize("rows_on_driver", [20_000, 0], ids=["driver", "tasks"])
def test_a_partitioned_table_has_a_file_for_each_value(spark, kind, tmp_path, rows_on_driver):
    by = ["day"] if kind == "delta" else ["day(at)", "day"]
    table = lake_table(kind, tmp_path, partition_by=by, rows_on_driver=rows_on_driver)
    frame = spark.range(0, 30, 1, 1).selectExpr(
        "id", "nullif(date_add(DATE'2026-01-01', int(id % 3)), DATE'2026-01-03') day", "TIMESTAMP'2026-01-01' at"
    )
    table.append(frame, "g", {P: step(None, 30)})
    assert len(files_in(tmp_path)) == 3
    assert ids(table) == list(range(30))
    days = {row["id"]: row["day"] for row in rows_in(table)}
    assert (days[0], days[1], days[2]) == (date(2026, 1, 1), date(2026, 1, 2), None)


def test_rows_of_other_columns_are_refused_and_change_nothing(spark, kind, tmp_path):
    table = lake_table(kind, tmp_path)
    frame = spark.range(3).selectExpr("id", "'a' name")
    table.append(frame, "g", {P: step(None, 3)})
    for wrong, message in (
        (frame.selectExpr("*", "id x"), "it has no column x int64: leave it out, or add it with merge_schema=True"),
        (frame.selectExpr("id", "id name"), "its column name is (large_)?string(_view)?, the rows' is int64"),
    ):
        with pytest.raises(SchemaMismatch, match=message):
            table.append(wrong, "g", {P: step(3, 6)})
    assert stored(table, "g", [P]) == {P: 3}
    table.append(spark.range(3, 4).selectExpr("'b' name", "int(id) id"), "g", {P: step(3, 4)})
    table.append(spark.range(4, 5), "g", {P: step(4, 5)})
    assert sorted((row["id"], row["name"]) for row in rows_in(table) if row["name"]) == [
        *[(n, "a") for n in range(3)],
        (3, "b"),
    ]


def test_columns_are_added_where_that_is_wanted(spark, kind, tmp_path):
    lake_table(kind, tmp_path).append(spark.range(1).selectExpr("int(id) id"), "g", {P: step(None, 1)})
    merging = lake_table(kind, tmp_path, merge_schema=True)
    fields = ["named_struct('a', 1)", "named_struct('b', 'x', 'a', 2)"]
    for number, field in enumerate(fields, 1):
        rows = spark.range(number, number + 1).selectExpr("int(id) id", "array(id) more", f"{field} n")
        merging.append(rows, "g", {P: step(number, number + 1)})
    found = sorted((row["id"], row["more"], row["n"]) for row in rows_in(merging))
    assert found == [(0, None, None), (1, [1], {"a": 1, "b": None}), (2, [2], {"a": 2, "b": "x"})]
    wider = spark.sql("SELECT 1099511627776L id")
    if kind == "iceberg":
        merging.append(wider, "g", {P: step(3, 4)})
        assert ids(merging) == [0, 1, 2, 1 << 40]
    else:
        with pytest.raises(SchemaMismatch, match="its column id is int32, the rows' is int64"):
            merging.append(wider, "g", {P: step(3, 4)})


def test_writers_that_race_take_each_step_once_and_groups_are_apart(spark, kind, tmp_path):
    taken: list[tuple[str, TopicPartition, int]] = []
    lake_table(kind, tmp_path).append(spark.range(0), "g", {})

    def store(group: str, partition: TopicPartition, first: int) -> None:
        table = lake_table(kind, tmp_path)
        for offset in range(5):
            try:
                frame = spark.range(first + offset, first + offset + 1)
                table.append(frame, group, {partition: step(offset or None, offset + 1)})
            except Fenced:
                continue
            taken.append((group, partition, offset))

    writers = [("g", P, 0), ("g", P, 0), ("g", Q, 100), ("h", P, 200)]
    jobs = [threading.Thread(target=store, args=each) for each in writers]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    table = lake_table(kind, tmp_path)
    held = stored(table, "g", [P, Q])
    assert ids(table) == [*range(held[P]), *range(100, 105), *range(200, 205)]
    apart = [("g", Q, n) for n in range(5)] + [("h", P, n) for n in range(5)]
    assert sorted(taken) == [("g", P, n) for n in range(held[P])] + apart
    assert stored(table, "h", [P, Q]) == {P: 5}


def meanwhile(table, happen, monkeypatch):
    """Let something happen to a table once, between the writing of a round's files and its commit."""
    left = [happen]
    plan = type(table._plan())
    write = plan.write

    def written(*given):
        files = write(*given)
        if left:
            left.pop()()
        return files

    monkeypatch.setattr(plan, "write", written)


def test_a_round_whose_race_is_lost_after_its_files_were_written_leaves_none(spark, kind, tmp_path, monkeypatch):
    table, other = lake_table(kind, tmp_path), lake_table(kind, tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})
    meanwhile(table, lambda: other.append(spark.range(10, 15), "g", {P: step(10, 15)}), monkeypatch)
    with pytest.raises(Fenced):
        table.append(spark.range(10, 20), "g", {P: step(10, 20)})
    assert ids(table) == list(range(15))
    assert len(files_in(tmp_path)) == 2


def test_another_tool_that_compacts_the_table_within_a_round_costs_nothing(spark, kind, tmp_path, monkeypatch):
    table = lake_table(kind, tmp_path)
    for first in (0, 10):
        table.append(spark.range(first, first + 10), "g", {P: step(first or None, first + 10)})

    def compact():
        from deltalake import DeltaTable

        if kind == "delta":
            assert DeltaTable(table.uri).optimize.compact()["numFilesRemoved"] == 2
        else:
            foreign = catalog(tmp_path).load_table("air.flights")
            foreign.overwrite(foreign.scan().to_arrow())

    meanwhile(table, compact, monkeypatch)
    table.append(spark.range(20, 30), "g", {P: step(20, 30)})
    assert ids(table) == list(range(30))
    assert stored(lake_table(kind, tmp_path), "g", [P]) == {P: 30}


def test_a_table_that_is_dropped_within_a_round_stops_its_writer(spark, kind, tmp_path, monkeypatch):
    table = lake_table(kind, tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})
    meanwhile(table, lambda: drop(table), monkeypatch)
    with pytest.raises(TableBroken, match="was dropped while it was written: stop its jobs first"):
        table.append(spark.range(10, 20), "g", {P: step(10, 20)})


def drop(table: Table) -> None:
    import shutil

    if isinstance(table, DeltaLakeTable):
        shutil.rmtree(table.uri)
    else:
        table.catalog.drop_table(table.name)


def test_a_catalog_that_answers_conflicts_for_a_while_costs_no_round(spark, tmp_path, monkeypatch):
    table = lake_table("iceberg", tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})
    commit, refused = table.catalog.commit_table, []

    def conflicts(*given):
        if len(refused) < 20:
            refused.append(given)
            raise race_lost("iceberg")("the branch has changed")
        return commit(*given)

    monkeypatch.setattr(table.catalog, "commit_table", conflicts)
    table.append(spark.range(10, 20), "g", {P: step(10, 20)})
    assert ids(table) == list(range(20))


@pytest.mark.parametrize("rows_on_driver", [30_000, 0], ids=["driver", "tasks"])
def test_files_have_the_size_that_is_wanted(spark, kind, tmp_path, rows_on_driver):
    of_kind = {
        "delta": {"target_bytes": 1 << 20},
        "iceberg": {"table_properties": {"write.target-file-size-bytes": str(1 << 20)}},
    }
    table = lake_table(kind, tmp_path, rows_on_driver=rows_on_driver, **of_kind[kind])
    frame = spark.range(0, 30_000, 1, 1).selectExpr("id", "sha2(string(id), 512) text")
    table.append(frame, "g", {P: step(None, 30_000)})
    assert len(files_in(tmp_path)) > 1
    assert ids(table) == list(range(30_000))


def test_jobs_that_make_a_table_at_once_make_one(spark, kind, tmp_path):
    for round_number in range(4):
        partitions = [TopicPartition("flights", number) for number in range(3)]
        tables = [lake_table(kind, tmp_path, f"new{round_number}") for _ in partitions]
        start = threading.Barrier(3, timeout=30)

        def make(table: Table, partition: TopicPartition, start=start) -> None:
            frame = spark.range(partition.partition, partition.partition + 1)
            start.wait()
            table.append(frame, "g", {partition: step(None, 1)})

        jobs = [threading.Thread(target=make, args=each) for each in zip(tables, partitions, strict=True)]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        table = lake_table(kind, tmp_path, f"new{round_number}")
        assert stored(table, "g", partitions) == dict.fromkeys(partitions, 1)
        assert ids(table) == [0, 1, 2]


def test_an_empty_round_moves_the_offsets_and_adds_no_file(spark, kind, tmp_path):
    table = lake_table(kind, tmp_path)
    table.append(spark.range(0), "g", {P: step(None, 8)})
    assert files_in(tmp_path) == set()
    assert stored(table, "g", [P]) == {P: 8}
    assert ids(table) == []


def test_a_commit_whose_answer_is_lost_is_found_in_the_table(spark, kind, tmp_path, monkeypatch):
    table = lake_table(kind, tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})
    for first, reported in ((10, OSError), (20, race_lost(kind))):
        commit = table._send

        def cut(*given, commit=commit, reported=reported):
            commit(*given)
            raise reported("the answer is lost")

        with monkeypatch.context() as patch:
            patch.setattr(table, "_send", cut)
            table.append(spark.range(first, first + 10), "g", {P: step(first, first + 10)})
    assert ids(table) == list(range(30))


def test_a_commit_that_is_carried_out_late_is_found_in_the_table(spark, kind, tmp_path, monkeypatch):
    table = lake_table(kind, tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})
    send, late = table._send, []

    def cut(commits):
        late.append(commits)
        if len(late) == 1:
            raise OSError("no answer yet")
        send(late[0])
        send(commits)

    monkeypatch.setattr(table, "_send", cut)
    table.append(spark.range(10, 20), "g", {P: step(10, 20)})
    assert ids(table) == list(range(20))


def race_lost(kind: str) -> type[Exception]:
    from deltalake.exceptions import CommitFailedError
    from pyiceberg.exceptions import CommitFailedException

    return CommitFailedError if kind == "delta" else CommitFailedException


def test_a_storage_that_refuses_moves_no_offset(spark, kind, tmp_path, monkeypatch):
    table = lake_table(kind, tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})

    def refused(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(table, "_send", refused)
        with pytest.raises(
            TableBroken,
            match=r"did not confirm the rows of group g, flights-0 from 10 to 20: no space left on device\. Rows and",
        ):
            table.append(spark.range(10, 20), "g", {P: step(10, 20)})
    assert stored(table, "g", [P]) == {P: 10}
    table.append(spark.range(10, 20), "g", {P: step(10, 20)})
    assert ids(table) == list(range(20))


def test_others_that_always_come_first_end_the_round_in_a_sentence(spark, kind, tmp_path, monkeypatch):
    table = lake_table(kind, tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})
    monkeypatch.setattr("kohort.spark.tables.lake_table.CONFLICT_SECONDS", 0.2)

    def late(*_):
        raise race_lost(kind)("another was first")

    monkeypatch.setattr(table, "_send", late)
    with pytest.raises(TableBroken, match=r"did not confirm the rows .*: others committed first for 0\.2 s: another"):
        table.append(spark.range(10, 20), "g", {P: step(10, 20)})


def test_a_look_up_that_fails_once_is_made_again(spark, kind, tmp_path, monkeypatch):
    lake_table(kind, tmp_path).append(spark.range(10), "g", {P: step(None, 10)})
    table, faults = lake_table(kind, tmp_path), [OSError("cut"), OSError("cut"), OSError("cut"), OSError("cut")]

    def cut(look, *given):
        if faults:
            raise faults.pop()
        return look(*given)

    monkeypatch.setattr(table, "_load", partial(cut, table._load))
    monkeypatch.setattr(table, "_found", partial(cut, table._found))
    with pytest.raises(TableBroken, match="cannot be read for group g: cut"):
        stored(table, "g", [P])
    assert stored(table, "g", [P]) == {P: 10}
    faults.append(OSError("cut"))
    table.append(spark.range(10, 20), "g", {P: step(10, 20)})
    assert ids(table) == list(range(20))


def test_a_commit_whose_outcome_cannot_be_seen_is_not_reported_as_refused(spark, kind, tmp_path, monkeypatch):
    table = lake_table(kind, tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})
    commit = table._send

    def gone(*_):
        raise OSError("no route to host")

    with monkeypatch.context() as patch:

        def cut(*given):
            commit(*given)
            patch.setattr(table, "_load", gone)
            raise OSError("the answer is lost")

        patch.setattr(table, "_send", cut)
        with pytest.raises(TableBroken, match=r"did not confirm the rows .*: the answer is lost\. Rows and offsets"):
            table.append(spark.range(10, 20), "g", {P: step(10, 20)})
    assert stored(table, "g", [P]) == {P: 20}


def test_offsets_can_be_set(spark, kind, tmp_path):
    table = lake_table(kind, tmp_path)
    with pytest.raises(TableBroken, match="does not exist"):
        table.set_offsets("g", {P: 3})
    table.append(spark.range(10), "g", {P: step(None, 10), Q: step(None, 4)})
    table.set_offsets("g", {P: 3})
    assert stored(lake_table(kind, tmp_path), "g", [P, Q]) == {P: 3, Q: 4}


def test_a_table_that_is_dropped_and_made_anew_stops_its_writer(spark, kind, tmp_path):
    table = lake_table(kind, tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})
    drop(table)
    with pytest.raises(TableBroken, match="was dropped while it was written"):
        table.append(spark.range(10, 20), "g", {P: step(10, 20)})
    lake_table(kind, tmp_path).append(spark.range(1), "g", {P: step(None, 1)})
    with pytest.raises(TableBroken, match="was dropped and made anew"):
        table.offsets("g", [P])


# Delta


def test_a_restore_stops_the_job_until_its_offsets_are_set(spark, tmp_path):
    from deltalake import DeltaTable

    table, idle = lake_table("delta", tmp_path), lake_table("delta", tmp_path)
    for first in (0, 10, 20):
        table.append(spark.range(first, first + 10), "g", {P: step(first or None, first + 10)})
    DeltaTable(table.uri).restore(2)
    for each in (table, idle):
        with pytest.raises(TableBroken, match="was restored to an older version: rows of group g of flights-0 below"):
            each.offsets("g", [P])
    with pytest.raises(TableBroken, match="was restored to an older version"):
        table.append(spark.range(30, 40), "g", {P: step(30, 40)})
    table.set_offsets("g", {P: 20})
    idle.append(spark.range(20, 30), "g", {P: step(20, 30)})
    assert ids(table) == list(range(30))


def test_small_files_are_put_together_beside_a_writer_and_a_vacuum_removes_what_is_in_no_version(spark, tmp_path):
    table = lake_table("delta", tmp_path)
    for number in range(5):
        table.append(spark.range(4 * number, 4 * number + 4), "g", {P: step(4 * number or None, 4 * number + 4)})
    other = lake_table("delta", tmp_path)
    assert table.compact()["numFilesRemoved"] == 5
    other.append(spark.range(20, 24), "g", {P: step(20, 24)})
    (Path(table.uri) / "part-dead.parquet").write_bytes(b"of a killed writer")
    assert table.vacuum() == []
    assert "part-dead.parquet" in table.vacuum(older_than_hours=0)
    assert ids(table) == list(range(24))


def test_a_round_whose_files_a_vacuum_removed_is_refused(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("kohort.spark.tables.delta.LONG_ROUND_SECONDS", 0.0)
    table = lake_table("delta", tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})
    write = DeltaPlan.write

    def long(*given):
        files = write(*given)
        lake_table("delta", tmp_path).vacuum(older_than_hours=0)
        return files

    monkeypatch.setattr(DeltaPlan, "write", long)
    with pytest.raises(TableBroken, match="was removed before its round was done"):
        table.append(spark.range(10, 20), "g", {P: step(10, 20)})
    assert ids(table) == list(range(10))


def test_a_table_with_rules_of_its_own_is_refused_by_name(spark, tmp_path):
    from deltalake import DeltaTable

    table = lake_table("delta", tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})
    DeltaTable(table.uri).alter.add_constraint({"positive": "id >= 0"})
    with pytest.raises(TableBroken, match=r"uses delta\.constraints\.positive, which this writer does not support"):
        table.append(spark.range(10, 20), "g", {P: step(10, 20)})


def test_columns_that_delta_has_no_type_for_are_named(spark, tmp_path):
    with pytest.raises(SchemaMismatch, match="the column took is interval day: no table has a type for interval day"):
        lake_table("delta", tmp_path).append(spark.sql("SELECT INTERVAL 1 DAY took"), "g", {P: step(None, 1)})


@pytest.mark.parametrize("name", ["two words", "50%", "café", "a[0-9]{x}*"])
def test_a_delta_table_may_have_any_name_that_a_directory_may_have(spark, tmp_path, name):
    table = lake_table("delta", tmp_path, name)
    for number in range(2):
        table.append(spark.range(3), "g", {P: step(3 * number or None, 3 * number + 3)})
    assert len(rows_in(DeltaLakeTable(str(tmp_path / name)))) == 6
    assert [path.name for path in tmp_path.iterdir()] == [name]


# Iceberg


def test_commits_of_others_and_their_expiry_keep_the_offsets_as_long_as_a_snapshot_has_them(spark, tmp_path):
    table = lake_table("iceberg", tmp_path)
    table.append(spark.range(10), "g", {P: step(None, 10)})
    table.append(spark.range(10, 20), "h", {Q: step(None, 5)})
    foreign = catalog(tmp_path).load_table("air.flights")
    foreign.append(foreign.scan().to_arrow())
    assert stored(table, "g", [P]) == {P: 10}
    table.expire_snapshots(timedelta(0))
    assert (stored(table, "g", [P]), stored(table, "h", [Q])) == ({P: 10}, {Q: 5})
    foreign.refresh()
    foreign.append(foreign.scan().to_arrow())
    foreign.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    with pytest.raises(TableBroken, match="was written by group g, and no snapshot has its offsets any more"):
        table.offsets("g", [P])
    table.set_offsets("g", {P: 10})
    assert stored(table, "g", [P]) == {P: 10}


def test_a_rolled_back_table_is_written_on_from_the_offsets_of_that_time(spark, tmp_path):
    table = lake_table("iceberg", tmp_path)
    for first in (0, 10):
        table.append(spark.range(first, first + 10), "g", {P: step(first or None, first + 10)})
    rolled = catalog(tmp_path).load_table("air.flights")
    rolled.manage_snapshots().rollback_to_snapshot(rolled.current_snapshot().parent_snapshot_id).commit()
    with pytest.raises(Fenced):
        table.append(spark.range(20, 30), "g", {P: step(20, 30)})
    assert stored(table, "g", [P]) == {P: 10}
    table.append(spark.range(10, 20), "g", {P: step(10, 20)})
    assert ids(table) == list(range(20))


def test_a_partition_field_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"'day\(at' is no partition field"):
        IcebergTable("air.x", catalog=catalog(tmp_path), partition_by=["day(at"])
