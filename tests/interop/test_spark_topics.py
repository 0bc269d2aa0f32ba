"""A Spark job on a cluster that copies a topic, while its tasks, its executors and its driver are killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.process import OWN_CODE, Child
from interop.spark_cluster import SparkCluster
from interop.waiting import eventually
from tests.integration.transaction_scenarios import committed
from tests.spark.cluster import Topic

pytestmark = [pytest.mark.timeout(1500), pytest.mark.spark]
ROOT = Path(__file__).parent.parent.parent
START_S = 300
ROWS = 1200
TASK, EXECUTOR = "pyspark.daemon", "CoarseGrainedExecutorBackend"
DRIVER = "driver"
KILLS = (TASK, TASK, EXECUTOR, DRIVER, TASK)
BROKERS: dict[str, Callable[[], KohortBroker | ApacheKafka]] = {
    "kohort": KohortBroker,
    "apache": lambda: ApacheKafka(heap="512m"),
    "apache, version 1 of transactions": lambda: ApacheKafka(
        heap="512m", formatting=("--feature", "transaction.version=1")
    ),
}


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.capability("kohort.spark", "topic to topic exactly once: tasks, executors and drivers killed")
def test_each_record_is_in_the_target_once_whatever_is_killed(
    broker: str, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    copy_and_compare(broker, spark_cluster, tmp_path)


@pytest.mark.parametrize("broker", ["kohort", "apache"])
@pytest.mark.capability("kohort.spark", "topic to topic exactly once in foreachBatch: the same kills")
def test_each_record_of_a_query_is_in_the_target_once_whatever_is_killed(
    broker: str, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    copy_and_compare(broker, spark_cluster, tmp_path, str(tmp_path / "checkpoint"))


def copy_and_compare(broker: str, cluster: SparkCluster, folder: Path, *checkpoint: str) -> None:
    name = f"copy-{uuid.uuid4().hex[:6]}"
    with (
        BROKERS[broker]() as running,
        Topic(running.bootstrap, name, 3) as source,
        Topic(running.bootstrap, f"{name}-out", 4) as target,
    ):
        values = copy_through_kills(source, target, cluster, folder, *checkpoint)
        found = asyncio.run(committed(running.bootstrap, target.name))
    assert found == Counter(values)


def copy_through_kills(
    source: Topic, target: Topic, cluster: SparkCluster, folder: Path, *checkpoint: str
) -> list[bytes]:
    """Kill what belongs to a job at any moment of its rounds; return the values once all offsets are committed."""
    chance = random.Random(7)
    values: list[bytes] = []
    jobs = [start(source, target, cluster, folder / "job-0.log", *checkpoint)]
    try:
        for kind in KILLS:
            await_line(jobs[-1], "owns", 1)
            before = target.end()
            values += source.fill(ROWS)
            await_writes(jobs[-1], target, before + chance.randrange(1, 400))
            if kind == DRIVER:
                jobs[-1].crash()
                jobs.append(start(source, target, cluster, folder / f"job-{len(jobs)}.log", *checkpoint))
            else:
                kill_on(chance.choice(cluster.workers), kind)
        eventually(lambda: sum(source.committed().values()), len(values), START_S)
    finally:
        for each in jobs:
            each.crash()
    return values


def start(source: Topic, target: Topic, cluster: SparkCluster, log: Path, *checkpoint: str) -> Child:
    arguments = [source.bootstrap_servers, source.name, target.name, source.group_id, cluster.address, *checkpoint]
    environment = {**os.environ, **OWN_CODE, "PYTHONUNBUFFERED": "1"}
    return Child([sys.executable, "-m", "tests.spark.copying_stream", *arguments], log, environment=environment)


def await_line(job: Child, line: str, count: int) -> None:
    """Wait until a job has printed a line so many times."""

    def is_printed() -> bool:
        assert job.is_running, job.text()[-3000:]
        return job.text().count(f"{line}\n") >= count

    eventually(is_printed, True, START_S)


def await_writes(job: Child, target: Topic, end: int) -> None:
    """Wait until the target has reached an offset in all, by records that may not be committed yet."""
    deadline = time.monotonic() + START_S
    while (reached := target.end()) < end:
        assert time.monotonic() < deadline, f"{reached} of {end}\n{job.text()[-3000:]}"


def kill_on(worker: Child, kind: str) -> None:
    """Kill the processes of a kind that a worker's executors are, or have started."""
    for pid in worker.descendants():
        if kind in command(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def command(pid: int) -> str:
    """Return the command line of a process, nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
