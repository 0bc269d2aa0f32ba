"""Whether the disk works, by what fails on it: one log line when it does not, one when appends succeed again.

Nothing is switched off meanwhile: each append and read is tried, and its sender gets KAFKA_STORAGE_ERROR at once.
Heartbeats continue.
"""

from __future__ import annotations

import errno
import logging

from kohort.log.disk import DiskFull, StorageError
from kohort.node.timers import NodeClock

log = logging.getLogger("kohort.node")

REMIND_MS = 60_000
"""How often a disk that still fails is logged."""

CALM_MS = 10_000
"""After so long without a refusal any append shows that the disk works. Before, where it was full, one shows it that is
as large as the smallest that was refused."""


class DiskHealth:
    """What is known of the disk of one node, which is at `directory`."""

    def __init__(self, clock: NodeClock, directory: str) -> None:
        self._clock = clock
        self._directory = directory
        self.is_failing = False
        """Whether appends failed, and none has shown since that the disk works."""
        self._kind = 0
        """The errno of the last refusal."""
        self._began_ms = self._logged_ms = self._refused_ms = 0
        self._smallest = 0
        self._refused = 0
        self._unreadable = 0
        self._unreadable_logged_ms: int | None = None
        self._latest: StorageError | None = None

    def refused(self, error: StorageError, size: int) -> None:
        """Note an append of so many bytes that failed."""
        now_ms = self._refused_ms = self._clock.now_ms
        kind, self._latest = error.errno or 0, error
        if not self.is_failing:
            self.is_failing, self._began_ms, self._smallest, self._refused = True, now_ms, size, 0
        self._refused += 1
        self._smallest = min(self._smallest, size)
        if self._refused == 1 or kind != self._kind or now_ms - self._logged_ms >= REMIND_MS:
            self._kind, self._logged_ms = kind, now_ms
            log.error("%s, %d appends refused so far", self._problem(error, size), self._refused)

    def appended(self, size: int) -> None:
        """Note an append that succeeded while others fail."""
        now_ms, was_full = self._clock.now_ms, self._kind in (errno.ENOSPC, errno.EDQUOT)
        if (was_full and size >= self._smallest) or now_ms - self._refused_ms >= CALM_MS:
            self.is_failing, self._latest = False, None
            what = "there is space again" if was_full else "the disk works again"
            seconds = (now_ms - self._began_ms) / 1000
            log.warning("%s: appends succeed after %.1f s, %d were refused", what, seconds, self._refused)

    def unreadable(self, error: StorageError) -> None:
        """Note a request that failed, unless it was for an append that was noted already."""
        if error is self._latest:
            return
        self._unreadable += 1
        now_ms = self._clock.now_ms
        if self._unreadable_logged_ms is None or now_ms - self._unreadable_logged_ms >= REMIND_MS:
            self._unreadable_logged_ms = now_ms
            log.error(
                "the disk fails: %s cannot be read: %s; who asks for it gets an error, everything else goes on, %d "
                "requests refused so far: look for the device in the system's log; what is damaged is found by "
                "`kohort log verify`",
                self._place(error), error.strerror, self._unreadable,
            )  # fmt: skip

    def _problem(self, error: StorageError, size: int) -> str:
        if isinstance(error, DiskFull):
            return (
                f"no space left in {error.directory}: {error.missing_bytes} more bytes are needed to append {size} to"
                f" {error.filename}; producers and commits get an error until there is room"
            )
        if error.errno == errno.EROFS:
            return (
                f"the disk is read-only: {self._place(error)} cannot be written; producers and commits get an error"
                " until it is mounted read-write, no restart is needed"
            )
        return (
            f"the disk fails: {self._place(error)} cannot be written: {error.strerror}; producers and commits get an"
            " error until it works again, no restart is needed: look for the device in the system's log"
        )

    def _place(self, error: StorageError) -> str:
        return f"{self._directory}/{error.filename}"
