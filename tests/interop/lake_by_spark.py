"""One Spark application that shares a Delta table with us: Delta's own reader and writer for Spark beside ours.

python -m tests.interop.lake_by_spark FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interop.jars import jars
from tests.spark.lake import lake_table, step, stored

from kohort.model.ids import TopicPartition
from kohort.spark import build

PLACE = TopicPartition("flights", 0)
COLUMNS = (
    "int(id) i, id l, float(id / 4) f, id / 8D d, repeat('ü', int(id)) s, cast(string(id) AS binary) b, id % 2 = 0 t,"
    " date_add(DATE'2026-01-01', int(id % 3)) da, cast(id / 4 AS decimal(10, 2)) de,"
    " timestamp_millis(id * 1001) + INTERVAL 7 MICROSECONDS ts, array(id, NULL) a,"
    " map('k', named_struct('x', id)) m, named_struct('y', array('z')) n, nullif(id % 3, 2) part"
)
ROWS = 90
FILTERS = (
    *("l = 33", "s = 'üü'", "d > 5.5", "t AND de < 2", "ts = timestamp_millis(33033) + INTERVAL 7 MICROSECONDS"),
    *("part IS NULL", "part = 1 AND l > 60", "da = DATE'2026-01-02'", "n.y[0] = 'z' AND i >= 80"),
)
"""Each skips files, by partition or by statistics, where a reader trusts them."""


def main(folder: Path) -> None:
    """Let both write and read one table in turn. Raises AssertionError."""
    conf: dict[str, str | int | bool] = {
        "spark.jars": ",".join(str(each) for each in sorted(jars("spark-delta-pom.xml").glob("*.jar"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": 1,
        "spark.sql.shuffle.partitions": 1,
    }
    spark = build("lake", master="local[1]", conf=conf)
    theirs = f"delta.`{folder}/flights`"
    rows = spark.sql(f"SELECT {COLUMNS} FROM range({ROWS})").cache()

    def write(first: int, stop: int, *, on_driver: bool) -> None:
        table = lake_table("delta", folder, partition_by=["part"], rows_on_driver=ROWS if on_driver else 0)
        table.append(rows.where(f"l >= {first} AND l < {stop}"), "g", {PLACE: step(first or None, stop)})

    write(0, 30, on_driver=True)
    rows.where("l >= 30 AND l < 60").createOrReplaceTempView("new")
    spark.sql(f"INSERT INTO {theirs} SELECT * FROM new")
    write(30, 60, on_driver=False)  # rows that another writer has too: only our offsets count
    spark.sql(f"DELETE FROM {theirs} WHERE l >= 30 AND l < 60")
    spark.sql(f"OPTIMIZE {theirs}")
    write(60, 90, on_driver=False)
    wanted = rows.where("l < 30 OR l >= 60")
    found = spark.sql(f"SELECT * FROM {theirs}")
    for condition in ("true", *FILTERS):
        assert collected(found.where(condition)) == collected(wanted.where(condition)), condition
    assert stored(lake_table("delta", folder), "g", [PLACE]) == {PLACE: ROWS}


def collected(frame: Any) -> Sequence[object]:
    """Return rows in order."""
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: row["l"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
