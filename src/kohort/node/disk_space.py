"""Whether the disk is full, by its failed appends: one log line when it is full, one when appends succeed again.

Nothing is switched off meanwhile: each append is tried, and its sender gets KAFKA_STORAGE_ERROR at once. Reads and
heartbeats go on.
"""

from __future__ import annotations

import logging

from kohort.log.disk import DiskFull
from kohort.node.timers import NodeClock

log = logging.getLogger("kohort.node")

REMIND_MS = 60_000
"""How often a disk that stays full is logged."""

CALM_MS = 10_000
"""After so long without a refusal any append shows that there is room; before, one as large as the smallest refused."""


class DiskSpace:
    """What is known of the room on one node's disk."""

    def __init__(self, clock: NodeClock) -> None:
        self._clock = clock
        self.is_full = False
        self._began_ms = self._logged_ms = self._refused_ms = 0
        self._smallest = 0
        self._refused = 0

    def refused(self, error: DiskFull) -> None:
        """Note an append that found no room."""
        now_ms = self._refused_ms = self._clock.now_ms
        if not self.is_full:
            self.is_full, self._began_ms, self._smallest, self._refused = True, now_ms, error.needed_bytes, 0
        self._refused += 1
        self._smallest = min(self._smallest, error.needed_bytes)
        if self._refused == 1 or now_ms - self._logged_ms >= REMIND_MS:
            self._logged_ms = now_ms
            log.error(
                "no space left in %s: %d more bytes are needed to append %d to %s; producers and commits get an error"
                " until there is room, %d appends refused so far",
                error.directory, error.missing_bytes, error.needed_bytes, error.filename, self._refused,
            )  # fmt: skip

    def appended(self, size: int) -> None:
        """Note an append that succeeded while the disk was full."""
        now_ms = self._clock.now_ms
        if size >= self._smallest or now_ms - self._refused_ms >= CALM_MS:
            self.is_full = False
            seconds = (now_ms - self._began_ms) / 1000
            log.warning("there is space again: appends succeed after %.1f s, %d were refused", seconds, self._refused)
