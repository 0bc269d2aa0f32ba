"""Spark's own Kafka source and Delta's own sink, which land a topic in a table until they are killed.

    python -m interop.lake_torture.programs.spark_job JSON

Exactly once by the checkpoint and by Delta's transactions of the query, as both document it. It prints a line for each
micro-batch.
"""

from __future__ import annotations

import json
import sys

from interop.jars import jars
from interop.lake_torture.programs.micro_batches import print_batches
from kohort.spark import build


def main() -> None:
    """Run one query for ever."""
    given = json.loads(sys.argv[1])
    conf: dict[str, str | int | bool] = {
        "spark.jars": ",".join(str(jar) for jar in sorted(jars("spark-delta-pom.xml").glob("*.jar"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": "640m",
        "spark.databricks.delta.snapshotPartitions": 1,  # 50 of the default are for tables of millions of files
        "spark.sql.shuffle.partitions": 1,
    }
    spark = build(given["name"], master="local[1,4]", conf=conf)
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", given["bootstrap"])
    source = source.option("subscribe", given["topic"]).option("startingOffsets", "earliest")
    rows = source.option("kafka.isolation.level", "read_committed").load()
    columns = rows.selectExpr("partition", "offset", "cast(value AS string) AS text")
    sink = columns.writeStream.format("delta").option(
        "checkpointLocation", f"{given['where']}/{given['name']}-checkpoint"
    )
    print_batches(sink.start(f"{given['where']}/{given['name']}"))


if __name__ == "__main__":
    main()
