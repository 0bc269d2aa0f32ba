"""A Spark application of a group that lands a topic in a table exactly once, until it is killed.

    python -m interop.lake_torture.programs.group_job JSON

It adds rows, or changes them by key. It prints a line for each round. Half of the applications write by Spark's tasks,
half from the driver.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from interop.lake_torture.merged_keys import DELETES, KEYS
from kohort.spark import GroupStream, build, exactly_once
from kohort.spark.into_table import ExactlyOnce
from kohort.spark.tables import DeltaLakeTable, IcebergTable, PostgresTable, Table

COLUMNS = ("partition", "offset", "cast(value AS string) AS text")
SESSION_MS = 6000
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def open_table(table_format: str, where: str, name: str, **settings: Any) -> Table:
    """Return a table: of a directory or bucket, of the catalog `lake`, or of a database."""
    if table_format == "delta":
        return DeltaLakeTable(f"{where}/{name}", **settings)
    if table_format == "iceberg":
        return IcebergTable(f"air.{name}", catalog="lake", **settings)
    return PostgresTable(where, name, **settings)


def stored_in(table: Table, *, is_merged: bool) -> ExactlyOnce:
    """Return what is done with the rows of a round."""
    if not is_merged:
        return exactly_once(table, lambda frame: frame.selectExpr(*COLUMNS))
    place = [f"{each} AS __{each}" for each in ("topic", "partition", "offset")]
    return exactly_once(
        table,
        lambda frame: frame.selectExpr(*COLUMNS, f"offset % {KEYS} AS bucket", *place),
        merge_on=["partition", "bucket"],
        delete=f"offset % {DELETES} = 0",
    )


def main() -> None:
    """Store rounds for ever."""
    given = json.loads(sys.argv[1])
    conf = {"spark.driver.memory": "512m", **given["conf"]}
    spark = build(given["name"], master=given["master"] or "local[1,4]", conf=conf, java_options=OPTIONS)
    settings = {} if given["on_driver"] else {"rows_on_driver": 0}
    table = open_table(given["format"], given["where"], given["name"], **settings)
    stream = GroupStream(
        spark,
        given["topic"],
        bootstrap_servers=given["bootstrap"],
        group_id=given["group"],
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=1000,
        max_rows_per_round=given["most"],
        finished=lambda done, is_done: print(json.dumps({"rows": done.size, "stored": is_done}), flush=True),
    )
    with stream:
        stream.run(stored_in(table, is_merged=given["is_merged"]))


if __name__ == "__main__":
    main()
