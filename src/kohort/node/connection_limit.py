"""How many connections are taken: in all, of one address, and in a second.

`max.connections` is the setting's value, or what the process's limit of open files leaves, if that is less. What is
beyond a number is closed, what is beyond the rate waits until it is accepted.
"""

from __future__ import annotations

import logging
from collections import Counter

from kohort.node.configuration.config import Config
from kohort.node.rate_limited_log import RateLimitedLog

log = logging.getLogger("kohort.node")


class ConnectionCounts:
    """How many connections are open, and of which addresses."""

    __slots__ = ("_by_host", "total")

    def __init__(self) -> None:
        self.total = 0
        self._by_host: Counter[str] = Counter()

    def add(self, host: str) -> None:
        """Note a connection from an address."""
        self.total += 1
        self._by_host[host] += 1

    def remove(self, host: str) -> None:
        """Note that one has ended."""
        self.total -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def of(self, host: str) -> int:
        """Return how many there are from an address."""
        return self._by_host[host]


class ConnectionLimit:
    """Decides which connections are taken, and logs the others: each limit once a minute, and when it is over."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._for_clients: int | None = None
        self._open_files = 0
        self._refused: Counter[str] = Counter()
        """By the name of a limit."""
        self._warnings = RateLimitedLog()
        self._credit = 0.0
        """Connections that may be created at once."""
        self._credited_ms = 0

    def derive(self, for_clients: int, open_files: int) -> None:
        """Take no more than `for_clients` of the `open_files` that the process may have."""
        self._for_clients, self._open_files = for_clients, open_files

    @property
    def most(self) -> int:
        """How many connections may be open."""
        most = self._config.max_connections
        return most if self._for_clients is None else min(most, self._for_clients)

    def admits(self, counts: ConnectionCounts, host: str, now_ms: int) -> bool:
        """Whether one more connection from an address is taken."""
        most, most_of_host = self.most, self._config.max_connections_of(host)
        if counts.total >= most:
            name, advice = f"max.connections ({most})", ""
            if most != self._config.max_connections:
                name = f"max.connections ({most}, which the limit of {self._open_files} open files leaves)"
                advice = "; a higher `ulimit -n` allows more"
            self._refuse("max.connections", f"{name} is reached", host, advice, now_ms)
            return False
        if counts.of(host) >= most_of_host:
            self._refuse(
                "max.connections.per.ip", f"max.connections.per.ip ({most_of_host}) is reached", host, "", now_ms
            )
            return False
        return True

    def _refuse(self, limit: str, reached: str, host: str, advice: str, now_ms: int) -> None:
        self._refused[limit] += 1
        text = "%s: closed the connection from %s, %d refused so far; new ones are taken when others end%s"
        self._warnings.warning(limit, now_ms, text, reached, host, self._refused[limit], advice)

    def left(self, counts: ConnectionCounts) -> None:
        """Note that a connection has ended."""
        refused = self._refused["max.connections"]
        if refused and counts.total < self.most:
            log.info(
                "connections are taken again: %d of %d are open, %d were refused", counts.total, self.most, refused
            )
            self._refused["max.connections"] = 0

    def creation_delay_ms(self, now_ms: int) -> int:
        """Return how long the next connection waits until it is accepted, 0 where it need not.

        A second's connections may come at once.
        """
        rate = self._config.max_connection_creation_rate
        passed_ms = max(0, now_ms - self._credited_ms)
        self._credited_ms = now_ms
        self._credit = min(rate, self._credit + passed_ms * rate / 1000)
        if self._credit >= 1:
            return 0
        text = "max.connection.creation.rate (%d a second) is reached: new connections wait"
        self._warnings.warning("rate", now_ms, text, rate)
        return int((1 - self._credit) * 1000 / rate) + 1

    def created(self) -> None:
        """Count a connection that was accepted."""
        self._credit -= 1
