"""The maximum number of connections of a node, and the log lines about refused connections.

One line when the limit is reached, one a minute as long as clients are refused, one when there is room again.
"""

from __future__ import annotations

import logging

from kohort.node.configuration.config import Config

log = logging.getLogger("kohort.node")

QUIET_MS = 60_000
"""How long the same limit is not logged again."""


class ConnectionLimit:
    """`max.connections`, or what the process's limit of open files leaves, if that is less."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._for_clients: int | None = None
        self._open_files = 0
        self._refused = 0
        self._said_ms: int | None = None

    def derive(self, for_clients: int, open_files: int) -> None:
        """Take no more than `for_clients` of the `open_files` that the process may have."""
        self._for_clients, self._open_files = for_clients, open_files

    @property
    def most(self) -> int:
        """How many connections may be open."""
        most = self._config.max_connections
        return most if self._for_clients is None else min(most, self._for_clients)

    def admits(self, count: int, peer_host: str, now_ms: int) -> bool:
        """Whether one more connection is taken where `count` are open."""
        most = self.most
        if count < most:
            return True
        self._refused += 1
        if self._said_ms is None or now_ms - self._said_ms >= QUIET_MS:
            self._said_ms = now_ms
            name, advice = f"max.connections ({most})", ""
            if most != self._config.max_connections:
                name = f"max.connections ({most}, which the limit of {self._open_files} open files leaves)"
                advice = "; a higher `ulimit -n` allows more"
            log.warning(
                "%s is reached: closed the connection from %s, %d refused so far; new ones are taken when others end%s",
                name, peer_host, self._refused, advice,
            )  # fmt: skip
        return False

    def left(self, count: int) -> None:
        """Note that a connection has ended and `count` are open now."""
        if self._refused and count < self.most:
            log.info("connections are taken again: %d of %d are open, %d were refused", count, self.most, self._refused)
            self._refused = 0
