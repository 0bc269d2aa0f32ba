"""Where the tasks of a run are executed: processes of this machine, or Spark's executors.

A task is a function of one item; both travel to another process as pickled bytes. A single task runs in this process.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class Tasks(Protocol):
    """Executes the tasks of a run."""

    parallelism: int
    """How many tasks run at once."""

    def run(self, work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> Iterator[ResultT]:
        """Yield the result of each task as it ends. Raises what a task raises."""

    def progress(self) -> tuple[int, int]:
        """Return how many of the running tasks are done, and how many there are."""


class LocalTasks:
    """Tasks in a pool of processes, one for each core."""

    def __init__(self, processes: int | None = None) -> None:
        self.parallelism = processes or os.cpu_count() or 1
        self._done = self._total = 0

    def progress(self) -> tuple[int, int]:
        """Return how many of the running tasks are done, and how many there are."""
        return self._done, self._total

    def run(self, work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> Iterator[ResultT]:
        """Yield the result of each task as it ends. Raises what a task raises, ChildProcessError where it is killed."""
        self._done, self._total = 0, len(items)
        in_process = len(items) < 2 or self.parallelism < 2
        for result in map(work, items) if in_process else self._in_pool(work, items):
            self._done += 1
            yield result

    def _in_pool(self, work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> Iterator[ResultT]:
        # A forked child would have the locks of this process, but not the threads that release them.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(self.parallelism, len(items)), context, initializer=_ignore_interrupts)
        try:
            for done in as_completed([pool.submit(work, item) for item in items]):
                yield done.result()
        except BrokenProcessPool:
            raise ChildProcessError(
                "a process of the run was killed, perhaps by the system for want of memory: free some and run it again"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise
        pool.shutdown()


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the one that ends the pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class SparkTasks:
    """Tasks in Spark's executors."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tracker = spark.sparkContext.statusTracker()
        self.parallelism: int = spark.sparkContext.defaultParallelism

    def progress(self) -> tuple[int, int]:
        """Return how many of the running tasks are done, and how many there are."""
        with suppress(Exception):  # Spark may be stopping: a line of progress is no reason to fail
            found = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            stages = [each for each in found if each is not None]
            return sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages)
        return 0, 0

    def run(self, work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> Iterator[ResultT]:
        """Yield the result of each task. Raises PySparkException where one fails."""
        import pyarrow as pa

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in (number for batch in batches for number in batch.column(0).to_pylist()):
                yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(work(items[number]))]})

        if items:
            numbers = self._spark.range(0, len(items), 1, len(items))
            for row in numbers.mapInArrow(task, "result binary").collect():
                yield pickle.loads(row.result)
