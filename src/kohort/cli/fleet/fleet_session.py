"""Where `kohort fleet` works (this machine or Spark), its errors as sentences, and its progress on stderr.

Errors in a command line are found before any work. Stages are printed with their duration; on a terminal a thread shows
the tasks of the running one.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.cli.cluster import no_answer, sentence_of
from kohort.cli.terminal import output
from kohort.cli.terminal.failure import INTERRUPTED, TRACEBACK_VARIABLE, USAGE, CommandFailed, reason_of
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.extras import install_command
from kohort.spark.tables.table import TableBroken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.fleet.run_tasks import Tasks
    from kohort.fleet.tables import Tables

_RAISED = re.compile(r"^([a-z_]\w*\.)*([A-Z]\w+): (.+)$")


def guarded(work: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Turn every failure of a verb into CommandFailed, with a sentence."""

    def run(args: argparse.Namespace) -> int:
        try:
            return work(args)
        except TableBroken as error:
            raise CommandFailed(str(error)) from error
        except KafkaError as error:
            if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
                where = "an INPUT that is no file is the address of a cluster"
                raise CommandFailed(f"{no_answer('', error)}: {where}") from error
            raise CommandFailed(sentence_of(error, "the cluster")) from error
        except OSError as error:
            raise CommandFailed(reason_of(error)) from error
        except KeyboardInterrupt:
            output.remark("stopped; the tables are as the last published run left them")
            return INTERRUPTED

    return run


def opened(args: argparse.Namespace, *, must_exist: bool) -> Tables:
    """Return the tables that `--tables` names. Raises CommandFailed where there are none, TableBroken."""
    try:
        from kohort.fleet.tables import Tables

        tables = Tables(args.tables, properties_of(args.storage_config), run=getattr(args, "of_run", None))
    except ImportError as missing:
        raise needs_packages(missing) from None
    if must_exist and not tables.run:
        first = f"make them with `kohort fleet run --tables {args.tables} INPUT`"
        raise CommandFailed(f"{args.tables} holds no tables of a fleet: {first}", USAGE)
    return tables


def properties_of(path: str | None) -> dict[str, str]:
    """Return the properties in a file, none without one. Raises CommandFailed for one that is none."""
    from kohort.net.settings_files import read_file

    try:
        return {} if path is None else read_file(Path(path), is_toml=False)
    except ValueError as error:
        raise CommandFailed(str(error), USAGE) from None


def needs_packages(missing: ImportError) -> CommandFailed:
    """Return the error for a package that is not installed."""
    return CommandFailed(f"kohort fleet needs more packages ({missing}): {install_command('fleet')}", USAGE)


def writable(path: Path | None) -> None:
    """Raise CommandFailed where a file cannot be written: before an hour of work, not after it."""
    if path is None:
        return
    parent = path.absolute().parent
    if path.is_dir() or not parent.is_dir() or not os.access(parent, os.W_OK):
        why = "it is a directory" if path.is_dir() else f"{parent} is no directory that can be written to"
        raise CommandFailed(f"{path} cannot be written: {why}", USAGE)


def require_packages() -> None:
    """Raise CommandFailed unless Arrow, NumPy, deltalake and DuckDB are installed: before any work is done."""
    try:
        import duckdb  # noqa: F401
        import numpy  # noqa: F401

        import kohort.fleet.tables  # noqa: F401
    except ImportError as missing:
        raise needs_packages(missing) from None


@contextmanager
def tasks_of(args: argparse.Namespace) -> Iterator[Tasks]:
    """Provide where the tasks of a run are executed: processes of this machine, or Spark where `--master` is given."""
    require_packages()
    from kohort.fleet.run_tasks import LocalTasks, SparkTasks

    if args.master is None:
        if args.conf:
            raise CommandFailed("--conf is a setting of Spark, which starts with --master only: give both", USAGE)
        yield LocalTasks()
        return
    with _started(args.master, dict(args.conf)) as session, spark_faults():
        yield SparkTasks(session)


@contextmanager
def _started(master: str, conf: dict[str, str]) -> Iterator[SparkSession]:
    """Provide a Spark session; failures to start become one sentence."""
    try:
        from kohort.spark.java import JavaMissing, java_home
        from kohort.spark.spark_session import build, require_spark

        require_spark()
        java_home()
    except ImportError as missing:
        raise needs_packages(missing) from None
    except JavaMissing as missing:
        raise CommandFailed(str(missing), USAGE) from None
    try:
        output.remark("starting Spark")
        session = build("kohort fleet", master=master, conf=conf)
    except Exception as error:  # Spark's own, which are of many kinds
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        raise CommandFailed(f"Spark does not start with --master {master}: {first_line(error)}", USAGE) from None
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def spark_faults() -> Iterator[None]:
    """Turn failures inside of Spark into a sentence, unless tracebacks are enabled."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        line = first_line(error)
        of_table = line.partition(f"{TableBroken.__name__}: ")[2]
        raise CommandFailed(of_table or f"Spark failed: {line} (set {TRACEBACK_VARIABLE}=1 to see where)") from None


def first_line(error: BaseException) -> str:
    """Return the essence of a failure: of one in an executor the last line of its Python traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line) and not line.startswith(("org.", "java.", "py4j."))]
    return (raised[-1] if raised else lines[0] if lines else type(error).__name__)[:500]


EVERY_S = 0.5

STAGES = {
    "bronze": "read the records",
    "fold": "folded each group's records to what happened",
    "silver": "wrote events and ownership",
    "gold": "added up groups and hours",
    "findings": "applied the rules",
    "publish": "published",
    "upkeep": "joined small files and removed old ones",
    "report": "gathered the report",
}
"""Descriptions of stages; others are printed by name."""


class Stages:
    """Progress by stage: called with the name of each stage as it begins, it prints the previous one on stderr."""

    def __init__(self, tasks: Tasks | None = None) -> None:
        self._tasks = tasks
        self._stream = sys.stderr
        self._stage: str | None = None
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="kohort fleet progress", daemon=True)

    def __enter__(self) -> Stages:
        if self._stream.isatty():
            self._thread.start()
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
        with self._lock:
            self._end(is_done=kind is None)

    def __call__(self, stage: str) -> None:
        """Begin a stage."""
        with self._lock:
            self._end(is_done=True)
            self._stage, self._began = stage, time.monotonic()

    def _end(self, *, is_done: bool) -> None:
        if self._stream.isatty():
            self._stream.write("\r\x1b[K")
        if self._stage is not None and is_done:
            description = STAGES.get(self._stage, self._stage)
            self._stream.write(f"kohort: {description}: {time.monotonic() - self._began:.1f} s\n")
        self._stream.flush()
        self._stage = None

    def _draw(self) -> None:
        while not self._is_over.wait(EVERY_S):
            done, total = (0, 0) if self._tasks is None else self._tasks.progress()
            tasks = f": {done:,} of {total:,} tasks" if total else ""
            with self._lock:
                if self._stage is not None:
                    self._stream.write(f"\r\x1b[K{self._stage}{tasks}, {time.monotonic() - self._began:.0f} s")
                    self._stream.flush()
