"""`in_one_step(…)`: bronze and silver of one topic in one commit, with a REST catalog of Iceberg on loopback."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg")

from tests.spark.cluster import Topic
from tests.spark.joint_job import TABLES, as_changes, changes, stores, take_steps
from tests.spark.lake import lake_table, offsets_of, rows_in, step
from tests.spark.merging import require_replay
from tests.spark.merging_job import change_at
from tests.spark.queries import rows_of, run, stop_after
from tests.spark.rest_catalog import ENDPOINTS, SEVERAL, Cut, RestServer, require_together
from tests.spark.storing_job import GROUP, PLACE

from kohort.spark import GroupStream, exactly_once, in_one_step
from kohort.spark.tables import Fenced, IcebergTable, PostgresTable, TableBroken
from kohort.wire.record_batches import Record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

GUIDE = (Path(__file__).parents[2] / "docs/guide/upserts-and-history.md").read_text()
ROW = "id BIGINT, name STRING"
NAMES = ["Ada", "", None, "ü/%\u0000'\"", "x" * 3000]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with RestServer(tmp_path) as running:
        yield running


@pytest.fixture
def tables(server: RestServer) -> list[IcebergTable]:
    catalog = server.catalog()
    return [IcebergTable(name, catalog=catalog) for name in TABLES]


def debezium(bronze: Any, silver: Any, **settings: Any) -> Any:
    change: dict[str, Any] = {"merge_on": ["id"], "envelope": "debezium", "schema": ROW}
    return in_one_step(exactly_once(bronze, **settings), exactly_once(silver, **change))


def fill(topic: Topic, seed: int, count: int) -> dict[int, str | None]:
    """Add changes of rows to the topic, with tombstones; return what silver has of them."""
    chance, expected = random.Random(seed), {}
    for _ in range(count):
        key = chance.randrange(9)
        row = {"id": key, "name": chance.choice(NAMES)}
        is_gone = key in expected and chance.random() < 0.3
        value = {"before": row, "op": "d"} if is_gone else {"after": row, "op": chance.choice("cur")}
        records = [json.dumps(value).encode(), *([None] if is_gone else [])]
        named = json.dumps({"id": key}).encode()
        topic.produce(key % 3, [Record(0, 1_700_000_000_000, named, each) for each in records])
        if is_gone:
            del expected[key]
        else:
            expected[key] = row["name"]
    return expected


def silver_of(bronze: Any) -> dict[int, str | None]:
    """Return what silver has after the records of bronze."""
    found = {}
    for text in bronze.sort("partition", "offset")["value"]:
        change = {} if text is None else json.loads(text)
        if change.get("op") == "d":
            del found[change["before"]["id"]]
        elif change:
            found[change["after"]["id"]] = change["after"]["name"]
    return found


def require_rows(server: RestServer, tables: list[IcebergTable], topic: Topic, expected: dict[int, str | None]) -> None:
    bronze, silver = map(rows_in, tables)
    assert len(bronze) == topic.end()
    assert max(Counter((each["partition"], each["offset"]) for each in bronze).values()) == 1
    assert sorted((each["id"], each["name"]) for each in silver) == sorted(expected.items())
    assert require_together(server.states, *TABLES) > 3


def test_a_stream_stores_in_both_at_once(spark, topic, server, tables):
    settings: Any = {"bootstrap_servers": topic.bootstrap_servers, "group_id": topic.group_id}
    expected = fill(topic, 1, 60)
    with GroupStream(spark, topic.name, **settings, max_rows_per_round=25) as stream:
        stream.run(debezium(*tables), until=lambda each: each.is_caught_up, timeout_s=60)
    require_rows(server, tables, topic, expected)
    assert offsets_of(tables[0], topic) == offsets_of(tables[1], topic) == topic.committed()


def test_a_query_that_is_killed_after_a_commit_stores_each_row_once(spark, topic, server, tables, tmp_path):
    expected = fill(topic, 3, 60)
    frame = rows_of(spark, topic, 20)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        run(frame, tmp_path / "checkpoint", stop_after(debezium(*tables), 1))
    run(frame, tmp_path / "checkpoint", debezium(*tables))
    require_rows(server, tables, topic, expected)


def test_batches_of_a_query_with_state_are_in_both_as_a_whole(spark, topic, server, tables, tmp_path):
    values = topic.fill(60)

    def counted():
        return rows_of(spark, topic, 20).groupBy("partition").count()

    def store():
        return in_one_step(exactly_once(tables[0]), exactly_once(tables[1], merge_on=["partition"], order="count"))

    with pytest.raises(Exception, match="ZeroDivisionError"):
        run(counted(), tmp_path / "checkpoint", stop_after(store(), 1), mode="update")
    run(counted(), tmp_path / "checkpoint", store(), mode="update")
    assert sum(each["count"] for each in rows_in(tables[1])) == len(values)
    rows = Counter((each["partition"], each["count"]) for each in rows_in(tables[0]))
    assert max(rows.values()) == 1
    assert require_together(server.states, *TABLES) > 3


# Without Spark


def require_replayed(server: RestServer, tables: list[IcebergTable], reached: int) -> None:
    bronze, silver = map(rows_in, tables)
    assert sorted(each["offset"] for each in bronze) == list(range(reached))
    require_replay(silver, list(map(change_at, range(reached))), is_history=False)
    require_together(server.states, *TABLES)


def test_commits_of_others_meanwhile_lose_nothing(server, tables):
    store, chance = stores(*tables), random.Random(1)
    take_steps(store, chance, 1)
    names = iter([*TABLES, TABLES[1]])

    def late(requests):
        if name := next(names, None):  # a stranger's commit, which leaves the offsets where they are
            table = server.catalog().load_table(name)
            table.append(table.schema().as_arrow().empty_table())
        server.commit(requests)

    server.on_commit = late
    take_steps(store, chance, 4)
    assert next(names, None) is None
    require_replayed(server, tables, store.offsets(GROUP, [PLACE])[PLACE].offset)


def test_lost_commits_and_answers_store_each_step_once(server, tables, monkeypatch):
    monkeypatch.setattr("kohort.spark.tables.lake_table.PAUSES_S", (0.0, 0.0))
    store, chance, waiting = stores(*tables), random.Random(2), []
    take_steps(store, chance, 1)

    def lose(requests):
        fault = chance.choice(["", "before", "after", "late"])
        if waiting:
            server.commit(waiting.pop())
        if fault == "late":
            waiting.append(requests)
        elif fault != "before":
            server.commit(requests)
        if fault:
            raise Cut

    server.on_commit = lose
    for _ in range(10):
        with suppress(Fenced, TableBroken):  # three were lost, or one of these came at last
            take_steps(store, chance, 2)
    server.on_commit = server.commit
    take_steps(store, chance, 1)
    require_replayed(server, tables, store.offsets(GROUP, [PLACE])[PLACE].offset)


def test_a_catalog_that_commits_to_one_of_both_is_found_out(server, tables):
    store, chance = stores(*tables), random.Random(3)
    take_steps(store, chance, 2)

    def half(requests):
        server.commit(requests[:1])
        raise Cut

    server.on_commit = half
    with pytest.raises(TableBroken, match=r"only some of IcebergTable\(lake\.air\.bronze\) and .* have a commit of"):
        take_steps(store, chance, 1)
    with pytest.raises(
        TableBroken, match=r"the offsets of numbers-0 for group g differ: .*bronze\) at \d+, .*silver\) at"
    ):
        store.offsets(GROUP, [PLACE])


def test_tables_at_different_offsets_are_named(tables):
    tables[0].append(changes(0, 5), GROUP, {PLACE: step(None, 5)})
    text = r"numbers-0 for group g differ: .*air\.bronze\) at 5, .*air\.silver\) at None\. .*set_offsets"
    with pytest.raises(TableBroken, match=text):
        take_steps(stores(*tables), random.Random(1), 1)
    alone = exactly_once(tables[1], as_changes, merge_on=["id"], order="at")
    alone._store(changes(0, 5), GROUP, {PLACE: step(None, 5)})
    take_steps(stores(*tables), random.Random(1), 1)
    bronze, silver = map(rows_in, tables)
    require_replay(silver, list(map(change_at, range(len(bronze)))), is_history=False)


def test_a_step_of_one_of_both_by_another_fences_the_step_of_both(server, tables):
    take_steps(store := stores(*tables), random.Random(1), 1)
    at = store.offsets(GROUP, [PLACE])[PLACE].offset
    files = files_in(server)
    tables[1].set_offsets(GROUP, {PLACE: at + 1})
    with pytest.raises(Fenced, match=r"silver\) refuses rows of group g"):
        store.table.append(changes(at, at + 3), GROUP, {PLACE: step(at, at + 3)})
    assert files_in(server) == files, "the file of bronze was removed"


def files_in(server: RestServer) -> set[str]:
    return {str(each) for each in server.folder.rglob("*.parquet")}


def test_rows_that_cannot_be_made_leave_no_file_and_no_offset(server, tables):
    def broken(rows):
        raise ZeroDivisionError(rows.num_rows)

    store = in_one_step(exactly_once(tables[0]), exactly_once(tables[1], broken))
    with pytest.raises(ZeroDivisionError):
        take_steps(store, random.Random(1), 1)
    keyless = in_one_step(exactly_once(tables[0]), exactly_once(tables[1], merge_on=["nothing"]))
    with pytest.raises(ValueError, match="rows have no column nothing"):
        take_steps(keyless, random.Random(1), 1)
    assert not files_in(server)
    take_steps(stores(*tables), random.Random(1), 2)


def test_old_files_of_metadata_are_removed(server):
    settings: Any = {"catalog": server.catalog(), "table_properties": {"write.metadata.previous-versions-max": "3"}}
    take_steps(stores(*(IcebergTable(name, **settings) for name in TABLES)), random.Random(1), 9)
    for name in ("bronze", "silver"):
        assert len(list(server.folder.rglob(f"{name}-*/metadata/*.metadata.json"))) <= 5


def test_a_table_that_is_dropped_meanwhile_ends_the_step(server, tables):
    take_steps(store := stores(*tables), random.Random(1), 1)

    def drop(requests):
        server.drop(TABLES[1])
        server.commit(requests)

    server.on_commit = drop
    with pytest.raises(TableBroken, match=r"silver\) was dropped while it was written"):
        take_steps(store, random.Random(1), 1)
    assert server.commits == 1


def test_new_columns_of_one_of_both_and_empty_rounds(server, tables):
    catalog = server.catalog()
    wide = [tables[0], IcebergTable(TABLES[1], catalog=catalog, merge_schema=True)]
    take_steps(stores(*tables), random.Random(1), 1)

    def noted(rows):
        return as_changes(rows).append_column("note", rows["value"])

    store = in_one_step(exactly_once(wide[0]), exactly_once(wide[1], noted, merge_on=["id"], order="at"))
    take_steps(store, random.Random(2), 1)
    at = store.offsets(GROUP, [PLACE])[PLACE].offset
    store.table.append(changes(at, at), GROUP, {PLACE: step(at, at + 2)})
    assert {each["note"] for each in rows_in(wide[1])} > {None}
    assert require_together(server.states, *TABLES) == 4


@pytest.mark.parametrize(
    ("names", "error", "text"),
    [
        (["lake/a.x", "lake/a.x"], ValueError, "has a table twice"),
        (["lake/a.x"], ValueError, "takes two stores or more"),
        (["lake/a.x", "other/a.y"], ValueError, "are in different catalogs"),
        (["lake/a.x", "delta/d"], TypeError, "have no commit of all of them"),
        (["delta/c", "delta/d"], TypeError, "which versions belong together"),
        (["lake/a.x@g", "lake/a.y@h"], ValueError, "whose group is one"),
    ],
)
def test_tables_that_have_no_commit_of_all_are_refused(server, tmp_path, names, error, text):
    def store(name):
        where, _, rest = name.partition("/")
        table, _, group = rest.partition("@")
        if where == "delta":
            return exactly_once(lake_table("delta", tmp_path, table))
        return exactly_once(IcebergTable(table, catalog=catalogs[where]), group=group or None)

    with RestServer(tmp_path) as second:
        catalogs = {"lake": server.catalog(), "other": second.catalog()}
        with pytest.raises(error, match=text):
            in_one_step(*map(store, names))


def test_catalogs_that_commit_to_one_table_are_refused_by_what_they_offer(tmp_path):
    def made(catalog):
        return stores(*(IcebergTable(name, catalog=catalog) for name in TABLES))

    with pytest.raises(ValueError, match=r"air\.bronze is in a SqlCatalog: .* only REST catalogs"):
        made(lake_table("iceberg", tmp_path).catalog)
    for endpoints in (ENDPOINTS, [*ENDPOINTS, "GET /v1/{prefix}/namespaces"]):
        with RestServer(tmp_path, endpoints) as server, pytest.raises(ValueError, match="does not offer POST /v1/"):
            made(server.catalog())
    for endpoints in ([*ENDPOINTS, SEVERAL], None):  # one that lists none has it
        with RestServer(tmp_path, endpoints) as server:
            made(server.catalog())


def test_tables_of_two_databases_are_refused():
    pytest.importorskip("psycopg")
    with pytest.raises(ValueError, match="differ in conninfo"):
        in_one_step(*(exactly_once(PostgresTable(f"dbname={name}", name)) for name in ("one", "two")))


# The guide, as it is written


def run_of_guide(text: str, **replaced: str) -> dict[str, Any]:
    """Run the code of the guide that has a text, with words in the place of others, and return its names."""
    (code,) = (each for each in re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL) if text in each)
    for word, other in replaced.items():
        assert word in code
        code = code.replace(word, other)
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_the_guides_tables_of_a_catalog_are_at_one_offset(spark, topic, server):
    expected = fill(topic, 4, 40)
    names = run_of_guide("in_one_step(", **{'load_catalog("lake")': f'load_catalog("lake", uri="{server.uri}")'})
    with GroupStream(
        spark, topic.name, bootstrap_servers=topic.bootstrap_servers, group_id=topic.group_id, max_rows_per_round=10
    ) as stream:
        stream.run(names["store"], until=lambda each: each.is_caught_up, timeout_s=60)
    assert {each["id"]: each["name"] for each in rows_in(names["silver"])} == expected
    assert len(rows_in(names["bronze"])) == topic.end()
    assert require_together(server.states, "lake.bronze", "lake.silver") > 3


def test_the_guides_versions_of_delta_tables_belong_together(spark, topic, tmp_path):
    expected = fill(topic, 5, 30)
    names = run_of_guide("into_versions = ", **{'"/lake"': repr(str(tmp_path))})

    def read():
        readers = run_of_guide("newest = ", **{"import polars": f"import polars; lake = {str(tmp_path)!r}"})
        return readers["bronze_rows"], readers["silver_rows"]

    def killed(frame, batch_id):
        if batch_id == 1:
            names["into_bronze"](frame, batch_id)
            raise ZeroDivisionError
        names["store"](frame, batch_id)

    with pytest.raises(Exception, match="ZeroDivisionError"):
        run(rows_of(spark, topic, 15), tmp_path / "checkpoint", killed)
    bronze, silver = read()
    assert bronze.height == 15, "the table itself has a batch more"
    assert dict(silver.select("id", "name").rows()) == silver_of(bronze)
    run(rows_of(spark, topic, 15), tmp_path / "checkpoint", names["store"])
    bronze, silver = read()
    assert bronze.height == topic.end()
    assert dict(silver.select("id", "name").rows()) == expected
