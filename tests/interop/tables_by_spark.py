"""Every value of `value_matrix` in tables that we write, and in those of Spark's own writers where a reader differs.

python -m tests.interop.tables_by_spark write FOLDER [TYPE…] writes ours. `compare` reads them, on the newest Spark for
which Delta and Iceberg both publish jars, and writes FOLDER/cells.json: by format, reader, type and role what is not as
it should be in our table, and in that of Delta's or Iceberg's own writer.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from interop.jars import jars
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame, SparkSession
from tests.interop.value_matrix import (
    FORMATS,
    OTHERS,
    ROLES,
    UNSTORED,
    VALUES,
    Condition,
    Reader,
    SqlReader,
    conditions,
    is_refused,
    rows_of,
)
from tests.spark.lake import catalog, lake_table, step

from kohort.model.ids import TopicPartition
from kohort.spark import build
from kohort.spark.direct_rows import attach_table
from kohort.spark.tables import SchemaMismatch, TableBroken

PLACE = TopicPartition("flights", 0)
LAYOUTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "column": {"one file": (), "a file each": ("id",)},
    "partition": {"partitions": ("value",)},
}
UNWRITTEN = "not written by Spark itself"
ZONE = "Asia/Kolkata"
"""The zone of the session: what a reader takes for local time is seen."""


class Case(NamedTuple):
    """One table of ours, and what is in it."""

    table: str
    name: str
    role: str
    layout: str
    by: tuple[str, ...]

    @property
    def place(self) -> str:
        """Its name in the folder and the catalog."""
        return re.sub(r"\W+", "_", f"{self.table} {self.name} {self.layout}").lower()


class SparkReader(SqlReader):
    """Spark with Delta's or Iceberg's jar: the table is a view `t` of its session."""

    spark: Any = None

    def query(self, text: str) -> pa.Table:
        return self.spark.sql(text.replace("FROM t", f"FROM {self.where}")).toArrow()

    def literal(self, condition: Condition) -> str:
        return VALUES[self.name][condition.at]

    def filtered(self, wanted: Sequence[Condition]) -> list[set[int] | Exception]:
        """Return the ids that filters find, in one query; each part of it is a scan of its own."""
        parts = [f"SELECT {at} AS at, id FROM {self.where} WHERE {self._sql(each)}" for at, each in enumerate(wanted)]
        found = self.spark.sql(" UNION ALL ".join(parts)).toArrow().to_pylist()
        return [{row["id"] for row in found if row["at"] == at} for at in range(len(wanted))]


def write(folder: Path, names: Sequence[str]) -> None:
    """Write our tables, with the values beside them, and `refused.json`: why others were refused."""
    spark = build("tables", master="local[1]", conf={"spark.sql.session.timeZone": ZONE})
    refused = {}
    for name in names or VALUES:
        frame = values(spark, name)
        rows = frame.toArrow().sort_by("id")
        pq.write_table(rows, truth_of(folder, name))
        for case in cases([name]):
            table = ours(folder, case)
            if is_refused(case.table, name, case.role):
                refused[f"{case.table}|{name}|{case.role}"] = refusal(table, attach_table(frame, rows))
            else:
                table.append(attach_table(frame, rows), "g", {PLACE: step(None, rows.num_rows)})
    for table in FORMATS:
        for name, value in UNSTORED.items():
            case = Case(table, f"unstored {name}", "column", "one file", ())
            refused[f"{table}|{name}|column"] = refusal(ours(folder, case), spark.sql(f"SELECT 1L id, {value} value"))
    (folder / "refused.json").write_text(json.dumps(refused, indent=1, ensure_ascii=False))


def compare(folder: Path, names: Sequence[str]) -> None:
    """Write `cells.json`."""
    spark = session(folder)
    SparkReader.spark = spark
    cells: dict[str, Any] = {}
    for case in cases(names):
        if is_refused(case.table, case.name, case.role):
            continue
        truth = pq.read_table(truth_of(folder, case.name))
        found = problems(case, truth, {each: our_place(spark, folder, case, each) for each in readers(case.table)})
        bad = [reader for reader, faults in found.items() if faults]
        beside = {}
        if bad:
            try:
                write_by_spark(spark, folder, case)
            except Exception as error:  # a partition of such a value, and the next type may have none
                beside = {each: [f"{case.layout}: {UNWRITTEN}: {type(error).__name__}"] for each in bad}
            else:
                beside = problems(case, truth, {each: their_place(folder, case, each) for each in bad})
        for reader, faults in found.items():
            cell = cells.setdefault(f"{case.table}: {reader}|{case.name}|{case.role}", {"ours": [], "theirs": []})
            cell["ours"] += faults
            cell["theirs"] += beside.get(reader, [])
        print(case.place, *bad, flush=True)
    (folder / "cells.json").write_text(json.dumps(cells, indent=1, ensure_ascii=False))


def cases(names: Sequence[str]) -> Iterator[Case]:
    """Yield the tables."""
    for name in names or VALUES:
        for table in FORMATS:
            for role in ROLES:
                for layout, by in LAYOUTS[role].items():
                    yield Case(table, name, role, layout, by)


def readers(table: str) -> tuple[str, ...]:
    """Return who reads a format."""
    not_of = {"Delta": "pyiceberg", "Iceberg": "delta-rs"}[table]
    return ("Spark", *(each for each in OTHERS if each != not_of))


def truth_of(folder: Path, name: str) -> Path:
    """Return the file with the values of a type."""
    return folder / (re.sub(r"\W+", "_", name) + ".parquet")


def values(spark: SparkSession, name: str) -> DataFrame:
    """Return the rows of a table: each value of its type, and a null."""
    kind = name.partition(", any")[0]
    texts = [*VALUES[name], "NULL"]
    rows = " UNION ALL ".join(f"SELECT {at}L id, CAST({each} AS {kind}) value" for at, each in enumerate(texts))
    return spark.sql(rows).coalesce(1)


def ours(folder: Path, case: Case) -> Any:
    """Return our table."""
    return lake_table(case.table.lower(), folder / "ours", case.place, partition_by=case.by)


def refusal(table: Any, frame: DataFrame) -> str:
    """Return why a table takes no rows."""
    try:
        table.append(frame, "g", {PLACE: step(None, 1)})
    except (SchemaMismatch, TableBroken) as error:
        return str(error)
    return ""


def write_by_spark(spark: SparkSession, folder: Path, case: Case) -> None:
    """Write a table by Delta's or Iceberg's own writer."""
    frame = values(spark, case.name)
    if case.table == "Delta":
        frame.write.format("delta").partitionBy(*case.by).save(f"{folder}/theirs/{case.place}")
    else:
        made = frame.writeTo(f"ice.theirs.{case.place}").using("iceberg")
        (made.partitionedBy(*(frame[each] for each in case.by)) if case.by else made).create()


def problems(case: Case, truth: pa.Table, places: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what is not as it should be in a table, by reader; `places` are what they take for it."""
    rows = rows_of(truth, truth.schema.field("value").type)
    if case.table == "Delta" and case.by == ("value",):
        rows = {at: "None" if text == "''" else text for at, text in rows.items()}  # as Delta's protocol has it
    kinds: dict[str, type[Reader]] = {"Spark": SparkReader, **OTHERS}
    return {
        name: kinds[name](place, case.name, truth).problems(case.layout, rows, conditions(case.name))
        for name, place in places.items()
    }


def our_place(spark: SparkSession, folder: Path, case: Case, reader: str) -> Any:
    """Return what a reader takes for our table."""
    if case.table == "Delta":
        path = f"{folder}/ours/{case.place}"
        return f"delta.`{path}`" if reader == "Spark" else path
    table = catalog(folder / "ours").load_table(f"air.{case.place}")
    if reader != "Spark":
        return table
    name = f"ours.{case.place}"
    spark.sql(f"CALL ice.system.register_table('{name}', '{table.metadata_location}')")
    return f"ice.{name}"


def their_place(folder: Path, case: Case, reader: str) -> Any:
    """Return what a reader takes for the table of Spark's own writer."""
    if case.table == "Delta":
        path = f"{folder}/theirs/{case.place}"
        return f"delta.`{path}`" if reader == "Spark" else path
    if reader == "Spark":
        return f"ice.theirs.{case.place}"
    place = folder / "warehouse/theirs" / case.place / "metadata"
    newest = (place / "version-hint.text").read_text().strip()
    return StaticTable.from_metadata(f"{place}/v{newest}.metadata.json")


def session(folder: Path, **more: str) -> SparkSession:
    """Return Spark with both formats; `more` are settings."""
    conf: dict[str, str | int | bool] = {
        "spark.jars": ",".join(str(each) for each in sorted(jars("spark-tables-pom.xml").glob("*.jar"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": 1,
        "spark.sql.shuffle.partitions": 1,
        "spark.sql.session.timeZone": ZONE,
        "spark.sql.codegen.wholeStage": False,  # some thousand small queries, each once
    }
    return build("tables", master="local[1]", conf=conf | more, java_options="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


if __name__ == "__main__":
    {"write": write, "compare": compare}[sys.argv[1]](Path(sys.argv[2]), sys.argv[3:])
