"""What `kohort fleet` says while it works: each stage with the time it took, and on a terminal the tasks of the jobs
that run now, which a thread asks Spark for.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S = 0.5

STAGES = {
    "bronze": "read the records",
    "fold": "folded each group's records to what happened",
    "silver": "wrote events and who owned what",
    "gold": "added up groups and hours",
    "findings": "looked for what is wrong",
    "publish": "published",
    "report": "gathered the report",
}
"""What a stage did, in words; one that is not here is said by its name."""


class Stages:
    """Told the name of each stage as it begins, it says on stderr that the one before is over."""

    def __init__(self, session: SparkSession, stream: TextIO | None = None) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._stream = sys.stderr if stream is None else stream
        self._stage: str | None = None
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="kohort fleet progress", daemon=True)

    def __enter__(self) -> Stages:
        if self._stream.isatty():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
            said = STAGES.get(self._stage, self._stage)
            self._stream.write(f"kohort: {said}: {time.monotonic() - self._began:.1f} s\n")
        self._stream.flush()
        self._stage = None

    def _draw(self) -> None:
        while not self._is_over.wait(EVERY_S):
            tasks = self._tasks()
            with self._lock:
                if self._stage is not None:
                    self._stream.write(f"\r\x1b[K{self._stage}{tasks}, {time.monotonic() - self._began:.0f} s")
                    self._stream.flush()

    def _tasks(self) -> str:
        done = total = 0
        with suppress(Exception):  # Spark may be stopping: a line of progress is no reason to fail
            for stage in self._tracker.getActiveStageIds():
                found = self._tracker.getStageInfo(stage)
                if found is not None:
                    done, total = done + found.numCompletedTasks, total + found.numTasks
        return f": {done:,} of {total:,} tasks" if total else ""
