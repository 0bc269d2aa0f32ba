"""Warnings that come at most once a minute of each kind: what clients cause must not fill a disk."""

from __future__ import annotations

import logging

log = logging.getLogger("kohort.node")

QUIET_MS = 60_000


class RateLimitedLog:
    """Logs the first warning of a kind, and the next one after a minute."""

    def __init__(self, logger: logging.Logger = log) -> None:
        self._logger = logger
        self._logged_ms: dict[str, int] = {}

    def warning(self, kind: str, now_ms: int, text: str, *values: object) -> None:
        """Log a warning, unless one of its kind was logged in the last minute."""
        logged_ms = self._logged_ms.get(kind)
        if logged_ms is None or now_ms - logged_ms >= QUIET_MS:
            self._logged_ms[kind] = now_ms
            self._logger.warning(text, *values)
