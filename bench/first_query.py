"""The first streaming query of a fresh process beside Spark's own connector: from `readStream` to its end.

`python -m bench.first_query kohort|kafka BOOTSTRAP TOPIC` is that process: it starts a session, reads the topic once
with `availableNow`, and prints its times as JSON. The start of the session is not counted: it is the same for both.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result, interleave
from bench.spark_read import CONNECTOR, session
from bench.throughput import load

ROWS = 1000
TOPIC = "first-query"


def first_query(quick: bool) -> Iterator[Outcome]:
    """Start processes in turn, after one of each that is not counted."""
    with KohortBroker() as broker:
        load(broker, TOPIC, ROWS, 100, 3)
        times: dict[str, list[dict[str, float]]] = {"kohort": [], "kafka": []}

        def once(kind: str) -> float:
            command = [sys.executable, "-m", "bench.first_query", kind, broker.bootstrap, TOPIC]
            shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            times[kind].append(json.loads(shown.splitlines()[-1]))
            return 1000 * times[kind][-1]["query"]

        interleave(lambda: once("kohort"), lambda: once("kafka"), 1)
        samples = interleave(lambda: once("kohort"), lambda: once("kafka"), 2 if quick else 7)
        parts = ", ".join(
            f"{part} {1000 * sorted(each[part] for each in times['kohort'])[len(times['kohort']) // 2]:.0f} ms"
            for part in ("load", "start", "run")
        )
        yield Result(
            "first streaming query of a process",
            "ms",
            *samples,
            CONNECTOR,
            Aim(1, of_ratio=True, at_most=True),
            f"ours: {parts}",
            {"parts": times},
        )


def main(kind: str, bootstrap: str, topic: str) -> None:
    """Be a fresh process."""
    spark = session()
    options: dict[str, Any] = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    if kind == "kohort":
        options["group.id"] = f"first-{time.time_ns()}"
    marks = [time.perf_counter()]
    rows = spark.readStream.format(kind).options(**options).load()
    marks.append(time.perf_counter())
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        marks.append(time.perf_counter())
        query.awaitTermination()
        marks.append(time.perf_counter())
        assert sum(each["numInputRows"] for each in query.recentProgress) == ROWS
        durations = query.recentProgress[0]["durationMs"]
    parts = dict(zip(("load", "start", "run"), (b - a for a, b in itertools.pairwise(marks)), strict=True))
    print(json.dumps({"query": marks[-1] - marks[0], **parts, "durations": durations}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
