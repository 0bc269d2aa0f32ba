"""Delta and Iceberg tables of the tests, read as strangers would: by the libraries alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.cluster import Topic

from kohort.model.ids import TopicPartition
from kohort.spark.tables import DeltaLakeTable, IcebergTable, OffsetStep, Position, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

KINDS = ("delta", "iceberg")
"""Of tables in a folder. `configured` is an Iceberg table of the catalog `lake` in pyiceberg's configuration."""


class ArrowFrame:
    """As much of a frame of Spark as tables need."""

    def __init__(self, rows: pa.Table) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        self._rows = rows
        self.schema = from_arrow_schema(rows.schema)

    def toArrow(self) -> pa.Table:  # noqa: N802
        """Return the rows."""
        return self._rows


def lake_table(kind: str, where: str | Path, name: str = "flights", **settings: Any) -> Any:
    """Return a table in a folder, or at a URL, which is made by its first round."""
    if kind == "delta":
        return DeltaLakeTable(f"{where}/{name}", **settings)
    if kind == "configured":
        return IcebergTable(f"{where}.{name}", catalog="lake", **settings)
    return IcebergTable(f"air.{name}", catalog=catalog(Path(where)), **settings)


def catalog(folder: Path) -> SqlCatalog:
    """Return a catalog of Iceberg tables in a folder."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir(exist_ok=True)
    made = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db?timeout=60", warehouse=folder.as_uri())
    made.create_namespace_if_not_exists("air")
    return made


def rows_in(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table; none where it does not exist."""
    if isinstance(table, DeltaLakeTable):
        from deltalake import DeltaTable, QueryBuilder

        if not DeltaTable.is_deltatable(table.uri):
            return []
        found = QueryBuilder().register("t", DeltaTable(table.uri)).execute("SELECT * FROM t").read_all()
    else:
        assert isinstance(table, IcebergTable)
        if not table.catalog.table_exists(table.name):
            return []
        found = table.catalog.load_table(table.name).scan().to_arrow()
    import pyarrow as pa

    rows: list[dict[str, Any]] = pa.table(found).to_pylist()
    return rows


def step(expected: int | None, stop: int, topic_id: str | None = None) -> OffsetStep:
    """Return a step between offsets; by default of a topic whose id is not known."""
    return OffsetStep(None if expected is None else Position(expected), Position(stop, topic_id))


def stored(table: Table, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offsets of a group in a table."""
    return {each: position.offset for each, position in table.offsets(group, partitions).items()}


def offsets_of(table: Table, topic: Topic, partitions: int = 3) -> dict[int, int]:
    """Return what a table holds of a topic's group, by partition."""
    asked = [TopicPartition(topic.name, number) for number in range(partitions)]
    return {each.partition: offset for each, offset in stored(table, topic.group_id, asked).items()}
