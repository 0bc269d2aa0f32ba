"""Delta and Iceberg tables in an object store that refuses, fails, cuts connections, loses answers, or is slow.

Requests go through a proxy in front of a real store. Each offset is in the table once, and what ends a job is a
sentence that names the table, the group and the rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from interop.faulty_store import FaultyStore
from interop.object_store import BUCKET, PASSWORD, USER, ObjectStore
from tests.spark.lake import rows_in, step, stored
from tests.spark.storing_job import GROUP, PLACE, Numbers

from kohort.spark.tables import DeltaLakeTable, Fenced, IcebergTable, Table, TableBroken

pytestmark = [pytest.mark.timeout(600), pytest.mark.spark]

LOG = {"delta": "_delta_log", "iceberg": "/metadata/"}
"""What the path of each request has that is part of a commit."""


@pytest.fixture(scope="module")
def object_store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture(scope="module")
def store(object_store: ObjectStore) -> Iterator[FaultyStore]:
    with FaultyStore(object_store.endpoint) as proxy:
        yield proxy


@pytest.fixture(params=LOG)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_table(
    store: FaultyStore, object_store: ObjectStore, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Any]:
    """Return what opens one table in the store, whose client gives up soon. Others read the store itself."""
    pytest.importorskip("deltalake" if kind == "delta" else "pyiceberg")
    for name, value in object_store.environment.items():
        monkeypatch.setenv(name, value)

    def delta() -> DeltaLakeTable:
        where = {"AWS_ENDPOINT_URL": store.endpoint, "max_retries": "1"}
        return DeltaLakeTable(f"s3://{BUCKET}/{tmp_path.name}", storage_options=where)

    def iceberg() -> IcebergTable:
        from pyiceberg.catalog.sql import SqlCatalog

        settings = {"s3.access-key-id": USER, "s3.secret-access-key": PASSWORD, "s3.region": "us-east-1"}
        where = {"s3.endpoint": store.endpoint, "warehouse": f"s3://{BUCKET}/{tmp_path.name}"}
        catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db?timeout=60", **settings, **where)
        catalog.create_namespace_if_not_exists("air")
        return IcebergTable("air.numbers", catalog=catalog)

    return delta if kind == "delta" else iceberg


def store_numbers(table: Table, first: int, stop: int) -> None:
    frame: Any = Numbers(first, stop)
    table.append(frame, GROUP, {PLACE: step(first or None, stop)})


def numbers_in(table: Table) -> list[int]:
    return sorted(row["id"] for row in rows_in(table))


@pytest.mark.parametrize("what", ["rows", "commit", "read"])
@pytest.mark.parametrize("status", [403, 507], ids=["forbidden", "full"])
def test_a_store_that_refuses_ends_the_round_in_a_sentence(
    store: FaultyStore, open_table: Callable[[], Any], kind: str, what: str, status: int
) -> None:
    method, text = {"rows": ("PUT", ".parquet"), "commit": ("PUT", LOG[kind]), "read": ("GET", "")}[what]
    table = open_table()
    store_numbers(table, 0, 10)
    with store.fault(method, text, status=status), pytest.raises(TableBroken) as refusal:
        store_numbers(table, 10, 20)
    assert repr(table) in str(refusal.value)
    outcome = "No offset has moved" if what == "rows" else "Rows and offsets come together or not at all"
    assert outcome in str(refusal.value)
    if what != "rows":
        assert "group g, numbers-0 from 10 to 20" in str(refusal.value)
    assert stored(table, GROUP, [PLACE]) == {PLACE: 10}
    store_numbers(table, 10, 20)
    assert numbers_in(table) == list(range(20))


@pytest.mark.parametrize("what", ["rows", "commit"])
@pytest.mark.parametrize(
    "fault",
    [{"status": 500}, {"status": 503}, {}, {"is_done": True}],
    ids=["error", "slow down", "connection reset", "answer lost"],
)
def test_a_fault_that_passes_costs_no_round(
    store: FaultyStore, open_table: Callable[[], Any], kind: str, what: str, fault: dict[str, int]
) -> None:
    table = open_table()
    store_numbers(table, 0, 10)
    with store.fault("PUT", ".parquet" if what == "rows" else LOG[kind], left=1, **fault):
        store_numbers(table, 10, 20)
        store.await_request()
    assert stored(open_table(), GROUP, [PLACE]) == {PLACE: 20}
    assert numbers_in(table) == list(range(20))


@pytest.mark.parametrize("kind", ["delta"])  # the store of an Iceberg table decides nothing: its catalog does
def test_a_commit_that_the_store_holds_back_is_refused_where_another_job_was_faster(
    store: FaultyStore, open_table: Callable[[], Any], kind: str
) -> None:
    late, table = open_table(), open_table()
    store_numbers(late, 0, 10)
    outcome: list[type[BaseException] | None] = []

    def store_late() -> None:
        try:
            store_numbers(late, 10, 20)
        except Fenced as refusal:
            outcome.append(type(refusal))

    job = threading.Thread(target=store_late)
    with store.fault("PUT", LOG[kind], is_held=True, left=1):
        job.start()
        store.await_request()
        store_numbers(table, 10, 15)
        store_numbers(table, 15, 30)
    job.join()
    assert outcome == [Fenced]
    assert stored(table, GROUP, [PLACE]) == {PLACE: 30}
    assert numbers_in(table) == list(range(30))


def test_a_store_that_is_gone_ends_the_round_in_a_sentence_and_a_job_goes_on_when_it_is_back(
    object_store: ObjectStore, open_table: Callable[[], Any]
) -> None:
    table = open_table()
    store_numbers(table, 0, 10)
    object_store.kill()
    with pytest.raises(TableBroken, match="did not confirm the rows of group g, numbers-0 from 10 to 20"):
        store_numbers(table, 10, 20)
    object_store.start()
    assert stored(open_table(), GROUP, [PLACE]) == {PLACE: 10}
    store_numbers(table, 10, 20)
    assert numbers_in(table) == list(range(20))
