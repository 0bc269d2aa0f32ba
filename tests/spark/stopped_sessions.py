"""An application that stops its sessions under what reads in them: its Java, and whether their members left the group.

`python -m tests.spark.stopped_sessions ADDRESS TOPIC FOLDER`
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession
from tests.spark.cluster import Topic

from kohort.spark import GroupStream, build, register


def start_query(spark: SparkSession, topic: Topic, checkpoint: Path) -> None:
    """Start a query, and return when it is idle."""
    options = {
        "kafka.bootstrap.servers": topic.bootstrap_servers,
        "subscribe": topic.name,
        "group.id": topic.group_id,
        "kafka.session.timeout.ms": "60000",
    }
    rows = spark.readStream.format("kohort").options(**options).option("startingOffsets", "earliest").load()
    rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start().processAllAvailable()


def start_stream(spark: SparkSession, topic: Topic) -> threading.Thread:
    """Start a stream in a thread of its own, and return when it is idle."""
    is_idle = threading.Event()

    def idle(stream: GroupStream) -> bool:
        if stream.is_caught_up:
            is_idle.set()
        return False

    def run() -> None:
        settings = {"bootstrap_servers": topic.bootstrap_servers, "group_id": topic.group_id}
        with GroupStream(spark, topic.name, session_timeout_ms=60_000, **settings) as stream:
            stream.run(lambda *_: None, until=idle)

    thread = threading.Thread(target=run)
    thread.start()
    is_idle.wait()
    return thread


def main(address: str, name: str, folder: str) -> None:
    """Run two queries whose format Spark finds, one that registers it, and a stream, each in its own session."""
    with Topic(address, name, 3) as topic:
        for number, kind in enumerate(("found", "found again", "registered", "stream")):
            topic.fill(6)
            spark = build("stopped", master="local[1]")
            if number == 0:
                print(spark._jvm.System.getProperty("java.home"))
            if kind == "registered":
                register(spark)
            thread = start_stream(spark, topic) if kind == "stream" else None
            if thread is None:
                start_query(spark, topic, Path(folder) / "checkpoint")
            assert topic.members() == 1
            spark.stop()
            topic.wait_until_empty()  # gives up before a session times out
            if thread is not None:
                thread.join()
            print(kind, number, sum(topic.committed().values()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
