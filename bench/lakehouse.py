"""Rows a second into a Delta table, exactly once, beside Spark's Kafka source with Delta's own writer and a checkpoint.

Each side is a process of its own on the newest Spark for which Delta publishes jars, reads the same topic of the same
broker, and writes a fresh table in each turn. Two jobs are beside one: each has one core, and they share a group.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from interop.kohort_broker import KohortBroker
from interop.process import cpu_s, descendants
from interop.spark_versions import python_with

from bench.result import Aim, Outcome, Result
from bench.throughput import load

PARTITIONS = 4
MOST = 1_000_000
"""Rows of a round at most, and of a micro-batch."""

SMALL, SMALL_ROUNDS = 100, 40
PEER = "Spark's Kafka source and Delta"
KEYS = 25_000
"""How many keys the records of a partition change, where they are merged."""

MERGED = 100_000
"""Changes of a round at most that are merged by key."""

MERGE_PEER = "Spark's Kafka source and Delta's MERGE in foreachBatch"
AS_FAST = Aim(1.0, of_ratio=True)
FASTER = Aim(1.5, of_ratio=True)
SHORTER = Aim(0.5, of_ratio=True, at_most=True)
SCALES = Aim(1.7, of_ratio=True)
LAST_LINES = 20
"""Of a job that has ended, how many lines of its errors are shown."""

ROOT = Path(__file__).resolve().parent.parent
_numbers = count()


class Job:
    """A process of `bench.lake_job`, which takes orders."""

    def __init__(self, kind: str, bootstrap: str, folder: Path, cores: int) -> None:
        self._folder = folder
        command = [str(python_with("4.2.0")), "-m", "bench.lake_job", kind, bootstrap, f"local[{cores}]"]
        self._errors = folder / f"{kind}-{next(_numbers)}.err"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, stderr=errors
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def say(self, **order: Any) -> None:
        """Write a line to the job."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the next line of the job. Raises RuntimeError, with its last lines, where it has ended."""
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            last = self._errors.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
            raise RuntimeError("\n".join([f"a job has ended with code {self._process.wait()}", *last]))
        found: dict[str, Any] = json.loads(line)
        return found

    def drain(
        self, topic: str, most: int, *, is_text: bool = False, is_merged: bool = False
    ) -> tuple[dict[str, Any], float]:
        """Land a topic in a new table, and return what the job says of it, and its CPU seconds."""
        before = self._cpu_s()
        number = next(_numbers)
        table = str(self._folder / f"table-{number}")
        self.say(topic=topic, table=table, group=f"bench-{number}", most=most, is_text=is_text, is_merged=is_merged)
        done, seconds = self.answer(), self._cpu_s() - before
        shutil.rmtree(table)  # the tables of all turns would be 40 GB
        return done, seconds

    def _cpu_s(self) -> float:
        """Return the CPU seconds of the job and of all processes that it has started."""
        return sum(cpu_s(each, with_ended=True) for each in [self._process.pid, *descendants(self._process.pid)])


def lakehouse(quick: bool) -> Iterator[Outcome]:
    """Land topics by both, in turn."""
    sizes = {100: 400_000, 1024: 100_000} if quick else {100: 4_000_000, 1024: 1_000_000}
    turns = 2 if quick else 6
    with ExitStack() as stack:
        broker = stack.enter_context(KohortBroker())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-lake.")))
        for size, rows in sizes.items():
            load(broker, f"rows-{size}", rows, size, PARTITIONS)
        load(broker, "small", SMALL * SMALL_ROUNDS, 100, 1)
        with ExitStack() as both:
            jobs = {
                kind: both.enter_context(Job(kind, broker.bootstrap, folder, cores=2)) for kind in ("kohort", "spark")
            }
            for job in jobs.values():
                job.answer()
            for size, rows in sizes.items():
                for is_text in (False, True):
                    yield rates(jobs, size, rows, turns, is_text=is_text)
            yield small_rounds(jobs, turns)
        yield from two_jobs(broker.bootstrap, folder, sizes, turns)


def rates(jobs: dict[str, Job], size: int, rows: int, turns: int, *, is_text: bool) -> Result:
    """Return the rows a second of both."""
    found: dict[str, list[float]] = {kind: [] for kind in jobs}
    cpu: dict[str, list[float]] = {kind: [] for kind in jobs}
    for turn in range(turns):
        for kind, job in sorted(jobs.items(), reverse=bool(turn % 2)):
            done, seconds = job.drain(f"rows-{size}", MOST, is_text=is_text)
            found[kind].append(rows / done["seconds"])
            cpu[kind].append(seconds)
    ours, theirs = (_median(each[1:]) for each in cpu.values())
    note = f"{ours:.1f} s of CPU beside {theirs:.1f} s for {rows:,} rows, everything but the broker"
    name = f"rows into Delta, exactly once, {size} B" + (", transformed by Spark" if is_text else "")
    return Result(name, "rows/s", found["kohort"][1:], found["spark"][1:], PEER, FASTER, note)


def lakehouse_merge(quick: bool) -> Iterator[Outcome]:
    """Merge the changes of a topic by key by both, in turn."""
    rows, turns = (200_000, 2) if quick else (400_000, 3)
    found: dict[str, list[float]] = {"kohort": [], "spark": []}
    with ExitStack() as stack:
        broker = stack.enter_context(KohortBroker())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-lake.")))
        load(broker, "changes", rows, 100, PARTITIONS)
        jobs = {kind: stack.enter_context(Job(kind, broker.bootstrap, folder, cores=2)) for kind in found}
        for job in jobs.values():
            job.answer()
        for turn in range(turns):
            for kind, job in sorted(jobs.items(), reverse=bool(turn % 2)):
                done, _ = job.drain("changes", MERGED, is_merged=True)
                found[kind].append(rows / done["seconds"])
    note = f"{rows:,} changes of {PARTITIONS * KEYS:,} keys, at most {MERGED:,} a round; the first turn warms up"
    name = "changes merged into Delta by key, exactly once, 100 B"
    yield Result(name, "changes/s", found["kohort"][1:], found["spark"][1:], MERGE_PEER, AS_FAST, note)


def small_rounds(jobs: dict[str, Job], turns: int) -> Result:
    """Return how long rounds of a few rows take; the first half of a turn warms up."""
    found: dict[str, list[float]] = {kind: [] for kind in jobs}
    for turn in range(turns):
        for kind, job in sorted(jobs.items(), reverse=bool(turn % 2)):
            done, _ = job.drain("small", SMALL)
            found[kind] += done["rounds"][SMALL_ROUNDS // 2 :]
    name = f"one round of {SMALL} rows into Delta"
    return Result(name, "ms", found["kohort"], found["spark"], PEER, SHORTER)


def two_jobs(bootstrap: str, folder: Path, sizes: dict[int, int], turns: int) -> Iterator[Outcome]:
    """Compare two jobs of one core each, which share a group and a table, with one."""
    size, rows = next(iter(sizes.items()))
    with ExitStack() as stack:
        jobs = [stack.enter_context(Job("kohort", bootstrap, folder, cores=1)) for _ in range(2)]
        for job in jobs:
            job.answer()
        alone: list[float] = []
        both: list[float] = []
        for _ in range(turns):
            alone.append(rows / together(jobs[:1], folder, f"rows-{size}"))
            both.append(rows / together(jobs, folder, f"rows-{size}"))
    name = f"rows into one Delta table, two jobs, {size} B"
    yield Result(name, "rows/s", both[1:], alone[1:], "one job", SCALES)


def together(jobs: Sequence[Job], folder: Path, topic: str) -> float:
    """Land a topic by jobs that begin when each has its share of the partitions; return the seconds."""
    number = next(_numbers)
    table = str(folder / f"table-{number}")
    for job in jobs:
        job.say(
            topic=topic,
            table=table,
            group=f"bench-{number}",
            most=MOST // 4,
            owned=PARTITIONS // len(jobs),
        )
    for job in jobs:
        job.answer()
    began = time.perf_counter()
    for job in jobs:
        job.say()
    for job in jobs:
        job.answer()
    seconds = time.perf_counter() - began
    shutil.rmtree(table)
    return seconds


def _median(samples: Sequence[float]) -> float:
    return sorted(samples)[len(samples) // 2]
