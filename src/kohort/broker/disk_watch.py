"""Reports a disk that does not answer: one log line when an operation takes long, one when it has ended.

The event loop waits for the disk itself when it appends and reads, so a thread watches; logs are flushed in another.
"""

from __future__ import annotations

import logging
import time
from threading import Event, Thread

from kohort.broker.os_disk import Operation, OsDisk

log = logging.getLogger("kohort.broker")

STALLED_SECONDS = 10.0
"""An operation that takes longer is reported."""


class DiskWatch:
    """Watches one disk from `start` to `stop`."""

    def __init__(self, disk: OsDisk) -> None:
        self._disk = disk
        self._is_over = Event()

    def start(self) -> None:
        """Begin to watch."""
        self._is_over.clear()
        Thread(target=self._watch, name="kohort-disk-watch", daemon=True).start()

    def stop(self) -> None:
        """Cease; a thread that is about to look ends soon."""
        self._is_over.set()

    def _watch(self) -> None:
        caller = OperationTimer("no client is served until it does")
        flusher = OperationTimer("what waits for the flush is not answered until it ends")
        while not self._is_over.wait(STALLED_SECONDS / 10):
            now = time.monotonic()
            caller.look(self._disk.busy, self._disk.directory, now)
            flusher.look(self._disk.flushing, self._disk.directory, now)


class OperationTimer:
    """The operation that was under way when it was last looked; each is an object of its own."""

    def __init__(self, consequence: str) -> None:
        self._consequence = consequence
        self._operation: Operation | None = None
        self._since = 0.0
        self._is_reported = False

    def look(self, operation: Operation | None, directory: str, now: float) -> None:
        """Take what is under way now."""
        if operation is self._operation:
            if operation is not None and not self._is_reported and now - self._since >= STALLED_SECONDS:
                self._is_reported = True
                log.error(
                    "the disk does not answer: the %s %s/%s has taken %.0f s; %s: look for the device in the system's"
                    " log", operation[0], directory, operation[1], now - self._since, self._consequence,
                )  # fmt: skip
            return
        if self._is_reported and self._operation is not None:
            what, path = self._operation
            log.warning("the disk answers again: the %s %s/%s took %.0f s", what, directory, path, now - self._since)
        self._operation, self._since, self._is_reported = operation, now, False
