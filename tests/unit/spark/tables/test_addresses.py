"""Addresses of tables, as `exactly_once` takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.spark.tables.addresses import table_at


@pytest.mark.parametrize(
    "address", ["flights", "delta:", "iceberg:flights", "iceberg:c.flights", "postgresql://h/d", "csv:x", ""]
)
def test_what_is_no_address_is_refused_with_the_forms(address: str) -> None:
    with pytest.raises(ValueError, match="is no address of a table as delta:PATH-OR-URL, iceberg:CATALOG"):
        table_at(address)


def test_delta_and_iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake")
    catalogs, config = pytest.importorskip("pyiceberg.catalog"), pytest.importorskip("pyiceberg.utils.config")
    assert repr(table_at("delta:s3://lake/flights")) == "DeltaLakeTable('s3://lake/flights')"
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", config.Config())
    assert repr(table_at("iceberg:lake.air.flights")) == "IcebergTable(lake.air.flights)"


def test_postgres_takes_the_table_out_of_the_query() -> None:
    pytest.importorskip("psycopg")
    assert repr(table_at("postgresql://u@h/d?connect_timeout=3&table=air.flights")) == "PostgresTable('air.flights')"
