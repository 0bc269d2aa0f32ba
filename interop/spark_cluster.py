"""A Spark standalone cluster on loopback: a master and workers, each a process of its own with executors of its own.

python -m interop.spark_cluster [WORKERS]     runs one until Ctrl-C and prints its master's address
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.process import Child, until_interrupted
from interop.unavailable import Unavailable

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
READY = re.compile(r"Starting Spark master at (spark://\S+)")
JOINED = "Successfully registered with master"
PROCESS_HEAP = "256m"  # of a master or a worker, which only start and watch others


class SparkCluster:
    """A master and its workers. Raises `Unavailable` when PySpark or a Java for it is missing.

    `conf` are the settings with which a session joins it; each of its executors has one worker's cores.
    """

    def __init__(self, workers: int = 2, *, cores: int = 1, memory_mib: int = 1024, wait_s: float = 90) -> None:
        self.worker_count = workers
        self.cores = cores
        self.memory_mib = memory_mib
        self.wait_s = wait_s
        self.address = ""
        self.environment: dict[str, str] = {}
        """The environment variables of its processes."""
        self.workers: list[Child] = []
        self.directory = Path()

    @property
    def conf(self) -> dict[str, str]:
        """The settings of a session, besides its master, that has all of the cluster."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.cores": str(self.cores),
            "spark.executor.memory": f"{self.memory_mib - 384}m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.shuffle.partitions": str(self.worker_count * self.cores),
        }

    def start(self) -> Self:
        """Start the master, then the workers, and return when all have joined."""
        self._program, self.environment = _program()
        self.directory = Path(tempfile.mkdtemp(prefix="kohort-spark-cluster."))
        try:
            self.master = self._child(MASTER, "master", "--port", "0")
            self.master.wait_for(lambda text: READY.search(text) is not None, "Spark master", self.wait_s)
            found = READY.search(self.master.text())
            assert found is not None
            self.address = found.group(1)
            for _ in range(self.worker_count):
                self._begin_worker()
            for worker in self.workers:
                worker.wait_for(lambda text: JOINED in text, "Spark worker", self.wait_s)
        except RuntimeError:
            self.stop()
            raise
        return self

    def add_worker(self) -> Child:
        """Start one worker more and return when it has joined."""
        worker = self._begin_worker()
        worker.wait_for(lambda text: JOINED in text, "Spark worker", self.wait_s)
        return worker

    def kill_worker(self, worker: Child) -> None:
        """End a worker as a crash of its machine would: with the executors that it started."""
        worker.crash()
        self.workers.remove(worker)

    def decommission_worker(self, worker: Child) -> None:
        """Decommission a worker as `decommission-worker.sh` does: its executors end their tasks, and take no others."""
        worker.signal(signal.SIGPWR)

    def stop(self) -> None:
        """End every process of the cluster, and remove what they wrote."""
        for worker in self.workers:
            worker.stop()
        if hasattr(self, "master"):
            self.master.stop()
        self.workers.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _begin_worker(self) -> Child:
        number = len(list(self.directory.glob("worker-*.log")))
        sizes = ("--cores", str(self.cores), "--memory", f"{self.memory_mib}m")
        scratch = self.directory / f"worker-{number}"
        worker = self._child(WORKER, f"worker-{number}", *sizes, "--work-dir", str(scratch), self.address)
        self.workers.append(worker)
        return worker

    def _child(self, main: str, name: str, *arguments: str) -> Child:
        command = [self._program, main, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        return Child(command, self.directory / f"{name}.log", environment=self.environment)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _program() -> tuple[str, dict[str, str]]:
    try:
        import pyspark

        from kohort.spark.java import JavaMissing, java_home
    except ImportError as reason:
        raise Unavailable(f"PySpark is not installed: {reason}") from reason
    try:
        java = java_home()
    except JavaMissing as reason:
        raise Unavailable(str(reason)) from reason
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java),
        "SPARK_DAEMON_MEMORY": PROCESS_HEAP,
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=true -Dspark.decommission.enabled=true",
    }
    return str(home / "bin" / "spark-class"), environment


def main(arguments: list[str]) -> int:
    """Run one cluster until interrupted."""
    with SparkCluster(int(arguments[0]) if arguments else 2) as cluster, until_interrupted():
        print(f"Spark master ready on {cluster.address}, {cluster.worker_count} workers", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
