"""The jobs of a run: each lands the topic in a table of its own, by programs that are started again after every end."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interop.lake_torture.account import ADDED, MERGED, NUMBERED, Landing
from interop.lake_torture.iceberg_connect import READY, IcebergConnect
from interop.lake_torture.readers import Reader, delta_readers, iceberg_readers, postgres_readers
from interop.lake_torture.services import Services
from interop.object_store import BUCKET
from interop.process import OWN_CODE, Child
from interop.spark_versions import OLDEST, python_with

TOPIC = "orders"
PARTITIONS = 3
MOST_ROWS = 300
"""Offsets of a round, at most, so that there are many."""

MOST_ROWS_WITH_STATE = 3000
"""Offsets of a micro-batch with state, at most: Spark takes seconds for one on a busy machine."""

CLUSTER = "cluster"
"""The job whose tasks run in executors."""


class Program:
    """A process that is started again whenever it has ended; each start writes files of its own."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path, *, ready: str = ""
    ) -> None:
        self.name = name
        self._ready = ready  # what its log has when it works; else that is what it prints
        self.starts = 0
        self._command = list(command)
        self._environment = {**environment, **OWN_CODE}
        self._folder = folder
        self._lock = threading.Lock()
        self._is_killed = False
        self.child: Child | None = None

    def start(self) -> None:
        """Start it, if it does not run."""
        with self._lock:
            if not self.is_running:
                self.starts += 1
                output = self._folder / f"{self.name}-{self.starts}.out"
                self.child = Child(self._command, output, environment=self._environment, separate=True)
                self._is_killed = False

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.child is not None and self.child.is_running

    @property
    def has_worked(self) -> bool:
        """Whether it runs, and has printed a line since its start: its Java and Spark are there."""
        if self.child is None or not self.is_running:
            return False
        return self._ready in self.complaint() if self._ready else self.child.output.stat().st_size > 0

    @property
    def has_ended_itself(self) -> bool:
        """Whether it has ended, and not by a kill."""
        return self.child is not None and not self.child.is_running and not self._is_killed

    def pids(self) -> list[int]:
        """Return its processes: the one that was started, and their descendants."""
        return [self.child.pid, *self.child.descendants()] if self.child is not None and self.is_running else []

    def crash(self) -> bool:
        """End it and all its descendants by SIGKILL; return whether it ran."""
        with self._lock:
            if self.child is None or not self.is_running:
                return False
            self._is_killed = True
            self.child.crash()
            return True

    def expect_end(self) -> None:
        """Count its end as a kill: it cannot live without what was killed of it."""
        self._is_killed = True

    def complaint(self) -> str:
        """Return what it wrote on stderr."""
        assert self.child is not None, "what was started can complain"
        return self.child.output.with_suffix(".err").read_text(errors="replace")

    def lines(self) -> int:
        """Return how many lines all its starts have printed."""
        return sum(text.read_bytes().count(b"\n") for text in self._folder.glob(f"{self.name}-*.out"))


@dataclass(slots=True)
class Job:
    """A table, the programs that land the topic in it, what else is done to it, and who reads it."""

    name: str
    programs: list[Program]
    readers: Mapping[str, Reader]
    landing: Landing = ADDED
    """What its table holds of a log."""
    upkeep: Program | None = None
    is_ours: bool = True
    tend: Callable[[], None] = lambda: None
    """Called again and again while the job runs."""
    seen: list[tuple[str, Any]] = field(default_factory=list)
    """What readers saw while jobs ran: the reader and what its landing makes of the rows."""


def module(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a program of this package."""
    return [sys.executable, "-m", f"interop.lake_torture.programs.{name}", *arguments]


class Place:
    """Where the tables of one format are: for jobs, through the gates, for readers and for upkeep."""

    def __init__(self, table_format: str, services: Services, name: str) -> None:
        bucket, direct = f"s3://{BUCKET}", services.postgres.conninfo
        self.format = table_format
        self.where = {"delta": bucket, "iceberg": "", "postgres": services.conninfo}[table_format]
        self.readers: Mapping[str, Reader] = {
            "delta": lambda: delta_readers(f"{bucket}/{name}", services.store),
            "iceberg": lambda: iceberg_readers(direct, name, services.store),
            "postgres": lambda: postgres_readers(direct, name),
        }[table_format]()
        self._direct = {"delta": bucket, "iceberg": "", "postgres": direct}[table_format]
        self._environment = {**services.environment, **services.store.environment}
        self._name = name

    def upkeep(self, folder: Path, seed: int) -> Program:
        """Return the program that compacts, expires and analyses the table."""
        command = module("upkeep", self.format, self._direct, self._name, str(seed))
        return Program(f"{self._name}-upkeep", command, self._environment, folder)


def group_job(kind: str, services: Services, folder: Path, table: str, seed: int) -> Job:
    """Return two Spark applications that share a group and a table, or one that has executors in a cluster."""
    name = f"{kind}_{table}"
    table_format, _, mode = kind.partition("-")
    place = Place(table_format, services, name)
    given: dict[str, Any] = {"format": table_format, "where": place.where, "name": name, "group": name, "topic": TOPIC}
    given |= {"bootstrap": services.bootstrap, "most": MOST_ROWS, "is_merged": mode == "merge"}
    given |= {"master": "", "conf": {}}
    writers = [True, False]  # whether rows are written on the driver
    if mode == CLUSTER:
        assert services.cluster is not None, "a run with such a job has a cluster"
        names = [each for each in services.environment if each.startswith("AWS_")]
        inherited = {each: services.environment[each] for each in names} | OWN_CODE
        conf = {f"spark.executorEnv.{key}": value for key, value in inherited.items()}
        given |= {"master": services.cluster.address, "conf": services.cluster.conf | conf}
        writers = [False]
    programs = [
        Program(
            f"{name}-{number}",
            module("group_job", json.dumps({**given, "on_driver": on_driver})),
            services.environment,
            folder,
        )
        for number, on_driver in enumerate(writers)
    ]
    landing = MERGED if mode == "merge" else ADDED
    return Job(name, programs, place.readers, landing, place.upkeep(folder, seed))


def state_job(kind: str, services: Services, folder: Path, table: str, seed: int) -> Job:
    """Return two streaming queries with state, each bound to a part of the partitions, and one table."""
    name = f"{kind}_{table}"
    place = Place("delta", services, name)
    programs = []
    for number in range(2):
        given = {"where": place.where, "name": name, "group": name, "topic": TOPIC, "bootstrap": services.bootstrap}
        given |= {"part": f"{number + 1}/2", "checkpoint": (folder / f"{name}-checkpoint-{number}").as_uri()}
        command = module("state_job", json.dumps({**given, "most": MOST_ROWS_WITH_STATE}))
        programs.append(Program(f"{name}-{number}", command, services.environment, folder))
    return Job(name, programs, place.readers, NUMBERED, place.upkeep(folder, seed))


def spark_delta(services: Services, folder: Path, table: str) -> Job:
    """Return a query of Spark's Kafka source and Delta's sink, in a folder: it has no group to share."""
    name = f"spark-delta_{table}"
    where = folder / "tables"
    given = {"name": name, "where": str(where), "topic": TOPIC, "bootstrap": services.bootstrap}
    command = [str(python_with(OLDEST)), *module("spark_job", json.dumps(given))[1:]]
    program = Program(f"{name}-0", command, services.environment, folder)
    return Job(name, [program], delta_readers(str(where / name), None), is_ours=False)


def iceberg_connect(services: Services, folder: Path, table: str) -> Job:
    """Return Iceberg's sink in two workers of Kafka Connect, in a folder, its catalog in PostgreSQL."""
    name = f"connect_{table}"
    cluster = IcebergConnect(services, folder, name, TOPIC)
    programs = [
        Program(f"{name}-{number}", command, services.environment, folder, ready=READY)
        for number, command in enumerate(cluster.commands())
    ]
    readers = iceberg_readers(services.postgres.conninfo, name, None)
    return Job(name, programs, readers, is_ours=False, tend=cluster.tend)


OURS = ("delta", "iceberg", "postgres", "delta-merge", "delta-state", "iceberg-merge", f"delta-{CLUSTER}")
"""Our jobs, by the format of the table and by what they do: they add rows, or the name has what else."""

USUAL = OURS[:5]
"""What a machine of two cores and some memory can run beside each other: five jobs are ten applications."""

OTHERS = {"spark-delta": spark_delta, "iceberg-connect": iceberg_connect}
JOBS = (*OURS, *OTHERS)
"""Names of jobs that a run can have: ours, and those of others."""


def make(kind: str, services: Services, folder: Path, table: str, seed: int) -> Job:
    """Return a job by its name."""
    if kind in OTHERS:
        return OTHERS[kind](services, folder, table)
    return (state_job if kind == "delta-state" else group_job)(kind, services, folder, table, seed)
