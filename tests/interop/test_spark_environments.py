"""Where a job runs: in a session of Spark Connect, and with the interpreter of an environment that is not activated."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.spark.cluster import Topic

from kohort.broker.embedded import EmbeddedBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

CONNECT = """
import sys
from kohort.spark import GroupStream, build, register
from kohort.spark.spark_session import parallelism

address, topic, checkpoint = sys.argv[1:]
spark = build("connect", master="local[2]", conf={"spark.api.mode": "connect"})
register(spark)
print("connect" in type(spark).__module__, parallelism(spark))
rounds = []
settings = {"bootstrap_servers": address, "group_id": "rounds", "auto_offset_reset": "earliest"}
with GroupStream(spark, topic, rows_on_driver=10, **settings) as stream:
    stream.run(lambda frame, _: rounds.append(frame.count()), until=lambda stream: stream.is_caught_up, timeout_s=120)
print(sum(rounds))
options = {"kafka.bootstrap.servers": address, "subscribe": topic, "group.id": "query", "startingOffsets": "earliest"}
rows = spark.readStream.format("kohort").options(**options).load()
query = rows.writeStream.format("memory").queryName("seen").option("checkpointLocation", checkpoint)
query.trigger(availableNow=True).start().awaitTermination()
print(spark.table("seen").count())
spark.stop()
"""

INACTIVE = """
import sys
from pyspark.sql import SparkSession
from kohort.spark import register

address, topic, _ = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").getOrCreate()
register(spark)
print(spark.read.format("kohort").option("kafka.bootstrap.servers", address).option("subscribe", topic).load().count())
spark.stop()
"""


@pytest.fixture
def topic() -> Iterator[Topic]:
    """A topic of 60 records."""
    with (
        EmbeddedBroker(group_initial_rebalance_delay_ms=0) as running,
        Topic(running.bootstrap_servers, "flights", partitions=3) as made,
    ):
        made.fill(60)
        yield made


def run(program: str, topic: Topic, checkpoint: Path, environ: dict[str, str]) -> list[str]:
    command = [sys.executable, "-c", program, topic.bootstrap_servers, topic.name, str(checkpoint)]
    outcome = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.split()


def test_format_and_group_stream_work_in_a_session_of_spark_connect(topic: Topic, tmp_path: Path) -> None:
    """Rounds above rows_on_driver are read by executors, which takes the format and the number of cores."""
    pytest.importorskip("grpc")
    assert run(CONNECT, topic, tmp_path, dict(os.environ)) == ["True", "2", "60", "60"]


def test_a_registered_format_runs_with_the_interpreter_of_an_environment_that_is_not_activated(
    topic: Topic, tmp_path: Path
) -> None:
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "python3").chmod(0o755)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    environ["PATH"] = f"{tmp_path}:{environ['PATH']}"
    assert run(INACTIVE, topic, tmp_path, environ) == ["60"]
