"""A streaming query that numbers the records of its partitions by state, and stores them exactly once in a Delta table.

    python -m interop.lake_torture.programs.state_job JSON

Its partitions are bound to its checkpoint. It prints a line for each micro-batch, until it is killed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pandas
from pyspark.sql.streaming.state import GroupStateTimeout

from interop.lake_torture.programs.group_job import COLUMNS, OPTIONS, SESSION_MS
from interop.lake_torture.programs.micro_batches import print_batches
from kohort.spark import build, exactly_once
from kohort.spark.tables import DeltaLakeTable


def numbered(_: tuple[int], frames: Iterator[pandas.DataFrame], state: Any) -> Iterator[pandas.DataFrame]:
    """Put its number before the text of each record of a partition, counted from 1 in the order of offsets."""
    frame = pandas.concat(list(frames)).sort_values("offset")
    done = state.get[0] if state.exists else 0
    frame["text"] = [f"{done + number} {text}" for number, text in enumerate(frame["text"], 1)]
    state.update((done + len(frame),))
    yield frame


def main() -> None:
    """Run one query for ever."""
    given = json.loads(sys.argv[1])
    conf: dict[str, str | int | bool] = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": 1}
    spark = build(given["name"], master="local[1,4]", conf=conf, java_options=OPTIONS)
    options = {
        "kafka.bootstrap.servers": given["bootstrap"],
        "subscribe": given["topic"],
        "group.id": given["group"],
        "boundPartitions": given["part"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": given["most"],
        "kafka.isolation.level": "read_committed",
        "kafka.session.timeout.ms": SESSION_MS,
        "kafka.heartbeat.interval.ms": 1000,
    }
    rows = spark.readStream.format("kohort").options(**options).load().selectExpr(*COLUMNS)
    results = rows.groupBy("partition").applyInPandasWithState(
        numbered, "partition int, offset bigint, text string", "done bigint", "append", GroupStateTimeout.NoTimeout
    )
    table = DeltaLakeTable(f"{given['where']}/{given['name']}")
    sink = results.writeStream.outputMode("append").foreachBatch(exactly_once(table))
    print_batches(sink.option("checkpointLocation", given["checkpoint"]).start())


if __name__ == "__main__":
    main()
