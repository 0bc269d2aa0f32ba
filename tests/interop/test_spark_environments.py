"""Where a job runs: in a session of Spark Connect, with an interpreter that is not activated, with one it brings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.spark_cluster import SparkCluster

pytest.importorskip("pyspark")

from tests.spark.cluster import Topic

from kohort.broker.embedded import EmbeddedBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]
ROOT = Path(__file__).parent.parent.parent

CONNECT = """
import sys
from kohort.spark import GroupStream, build, register
from kohort.spark.running_session import parallelism

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

ARCHIVED = """
import os
import sys
from pyspark.sql import SparkSession
from kohort.spark import GroupStream, register

address, topic, checkpoint = sys.argv[1:]
spark = SparkSession.builder.appName("flights").getOrCreate()
register(spark)

def place(batches):
    import kohort
    import pyarrow
    rows = sum(batch.num_rows for batch in batches)
    yield pyarrow.RecordBatch.from_pydict({"file": [os.path.abspath(kohort.__file__)], "rows": [rows]})

def places(frame):
    return [(row.file, row.rows) for row in frame.mapInArrow(place, "file string, rows bigint").collect()]

found = places(spark.range(0, 8, 1, 8))
rounds = []
settings = {"bootstrap_servers": address, "group_id": "rounds", "auto_offset_reset": "earliest"}
with GroupStream(spark, topic, rows_on_driver=0, **settings) as stream:
    stream.run(lambda frame, _: rounds.extend(places(frame)), until=lambda stream: stream.is_caught_up, timeout_s=120)
print("rows of rounds:", sum(rows for _, rows in rounds))
options = {"kafka.bootstrap.servers": address, "subscribe": topic, "group.id": "query", "startingOffsets": "earliest"}
stored = []
query = spark.readStream.format("kohort").options(**options).load().writeStream.option("checkpointLocation", checkpoint)
query.foreachBatch(lambda frame, _: stored.extend(places(frame))).trigger(availableNow=True).start().awaitTermination()
print("rows of batches:", sum(rows for _, rows in stored))
for file in sorted({file for file, _ in found + rounds + stored}):
    print("kohort of an executor:", file)
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


@pytest.mark.timeout(900)
def test_a_submitted_job_brings_its_environment_to_the_workers_of_a_cluster(topic: Topic, tmp_path: Path) -> None:
    """The commands are those of the guide, but for where kohort is installed from."""
    pytest.importorskip("venv_pack")
    (tmp_path / "job.py").write_text(ARCHIVED)
    subprocess.run([sys.executable, "-m", "venv", "environment"], cwd=tmp_path, check=True)
    packages = [str(ROOT), "pyarrow", "pandas", "numpy", "numba", "urllib3"]
    subprocess.run(["environment/bin/pip", "install", "--quiet", *packages], cwd=tmp_path, check=True)
    pack = ["-m", "venv_pack", "--quiet", "--compress-level", "1", "-p", "environment", "-o", "environment.tar.gz"]
    subprocess.run([sys.executable, *pack], cwd=tmp_path, check=True)
    with SparkCluster(2, memory_mib=1024) as cluster:
        settings = cluster.conf | {
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        }
        command = [f"{cluster.environment['SPARK_HOME']}/bin/spark-submit", "--master", cluster.address]
        command += [each for setting in settings.items() for each in ("--conf", "=".join(setting))]
        command += ["--archives", "environment.tar.gz#environment", "job.py"]
        done = subprocess.run(
            [*command, topic.bootstrap_servers, topic.name, str(tmp_path / "checkpoint")],
            env=cluster.environment | {"PYSPARK_PYTHON": "./environment/bin/python"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[done.stderr.find("Traceback") :]
        found = [line.partition(": ")[::2] for line in done.stdout.splitlines() if ": " in line]
        files = [Path(value) for name, value in found if name == "kohort of an executor"]
        assert [pair for pair in found if pair[0].startswith("rows")] == [
            ("rows of rounds", "60"), ("rows of batches", "60"),
        ]  # fmt: skip
        places = [each.relative_to(cluster.directory).parts for each in files]
        assert {each[0] for each in places} == {"worker-0", "worker-1"}
        assert {each[3] for each in places} == {"environment"}
