"""The jobs of a run: each lands the topic in a table of its own, by programs that are started again after every end."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interop.group import ROOT
from interop.lake_torture.iceberg_connect import READY, IcebergConnect
from interop.lake_torture.readers import Reader, delta_readers, iceberg_readers, postgres_readers
from interop.lake_torture.services import Services
from interop.object_store import BUCKET
from interop.process import Child
from interop.spark_versions import OLDEST, python_with

TOPIC = "orders"
PARTITIONS = 3
MOST_ROWS = 40
"""Rows of a round, at most, so that there are many."""


class Program:
    """A process that is started again whenever it has ended; each start writes files of its own."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path, *, ready: str = ""
    ) -> None:
        self.name = name
        self._ready = ready  # what its log has when it works; else that is what it prints
        self.starts = 0
        self._command = list(command)
        self._environment = {**environment, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
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
    upkeep: Program | None = None
    is_ours: bool = True
    tend: Callable[[], None] = lambda: None
    """Called again and again while the job runs."""
    seen: list[tuple[str, Any]] = field(default_factory=list)
    """What readers saw while jobs ran: the reader and its snapshots."""


def module(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a program of this package."""
    return [sys.executable, "-m", f"interop.lake_torture.programs.{name}", *arguments]


def group_job(kind: str, services: Services, folder: Path, table: str, seed: int, topic: str = TOPIC) -> Job:
    """Return two Spark applications that share a group and a table of a kind."""
    name = f"{kind}_{table}"
    where = {"delta": f"s3://{BUCKET}", "iceberg": "", "postgres": services.conninfo}[kind]
    direct = {"delta": where, "iceberg": "", "postgres": services.postgres.conninfo}[kind]
    programs = []
    for number, on_driver in enumerate((True, False)):
        given = {"kind": kind, "where": where, "name": name, "topic": topic, "group": name, "on_driver": on_driver}
        given |= {"bootstrap": services.bootstrap, "most": MOST_ROWS}
        command = module("group_job", json.dumps(given))
        programs.append(Program(f"{name}-{number}", command, services.environment, folder))
    readers = {
        "delta": lambda: delta_readers(f"s3://{BUCKET}/{name}", services.store),
        "iceberg": lambda: iceberg_readers(services.postgres.conninfo, name, services.store),
        "postgres": lambda: postgres_readers(services.postgres.conninfo, name),
    }[kind]()
    environment = {**services.environment, **services.store.environment}
    upkeep = Program(f"{name}-upkeep", module("upkeep", kind, direct, name, str(seed)), environment, folder)
    return Job(name, programs, readers, upkeep)


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


OTHERS = {"spark-delta": spark_delta, "iceberg-connect": iceberg_connect}
JOBS = ("delta", "iceberg", "postgres", *OTHERS)
"""Names of jobs that a run can have: ours by the kind of their table, and those of others."""


def make(kind: str, services: Services, folder: Path, table: str, seed: int) -> Job:
    """Return a job by its name."""
    if kind in OTHERS:
        return OTHERS[kind](services, folder, table)
    return group_job(kind, services, folder, table, seed)
