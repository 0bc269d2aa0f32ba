"""A Spark application of a group that lands a topic in a table exactly once, until it is killed.

    python -m interop.lake_torture.programs.group_job JSON

It prints a line for each round. Half of the applications write by Spark's tasks, half from the driver.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kohort.spark import GroupStream, build, exactly_once
from kohort.spark.tables import DeltaLakeTable, IcebergTable, PostgresTable, Table

COLUMNS = ("partition", "offset", "cast(value AS string) AS text")
SESSION_MS = 6000


def open_table(kind: str, where: str, name: str, **settings: Any) -> Table:
    """Return a table: of a directory or bucket, of the catalog `lake`, or of a database."""
    if kind == "delta":
        return DeltaLakeTable(f"{where}/{name}", **settings)
    if kind == "iceberg":
        return IcebergTable(f"air.{name}", catalog="lake", **settings)
    return PostgresTable(where, name, **settings)


def main() -> None:
    """Store rounds for ever."""
    given = json.loads(sys.argv[1])
    conf = {"spark.driver.memory": "512m"}
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = build(given["name"], master="local[1,4]", conf=conf, java_options=options)
    settings = {} if given["on_driver"] else {"rows_on_driver": 0}
    table = open_table(given["kind"], given["where"], given["name"], **settings)
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
        stream.run(exactly_once(table, lambda frame: frame.selectExpr(*COLUMNS)))


if __name__ == "__main__":
    main()
