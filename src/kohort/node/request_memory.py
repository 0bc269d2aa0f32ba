"""Memory of the requests of all connections together (`queued.max.request.bytes`), shared fairly between them.

What counts are frames that are not whole, wait, or are worked on in steps. The law: a connection is read as long as it
has no more than what is free, so that n greedy ones leave one n-th and all of them stay below the limit. One that
has more is not read until others have given memory back. One connection at a time, that with the shortest request, is
admitted whatever it has, so that a large request always completes; if it stands still, it is closed.
"""

from __future__ import annotations

from collections.abc import Callable

from kohort.node.client_connection import Connection
from kohort.node.configuration.config import Config
from kohort.node.rate_limited_log import RateLimitedLog
from kohort.node.timers import NodeClock, Timers

FREE_BYTES = 1 << 14
"""What each connection may have in any case: most requests of groups are shorter."""

STALL_MS = 10_000
"""After so long the admitted connection must have received `PROGRESS_BYTES` more, if others wait."""
PROGRESS_BYTES = 1 << 18

_TIMER = "request memory"


class RequestMemory:
    """Bytes of the requests of one node's connections. `close` closes a connection, with a reason."""

    def __init__(
        self, config: Config, clock: NodeClock, timers: Timers, close: Callable[[Connection, str], None]
    ) -> None:
        self._config = config
        self._clock = clock
        self._timers = timers
        self._close = close
        self.buffered = 0
        """Bytes of all connections but the admitted one."""
        self.waiting: dict[Connection, None] = {}
        """Connections that are not read."""
        self.favoured: Connection | None = None
        """The admitted connection."""
        self.waits = 0
        """How often a connection was no longer read."""
        self.closed = 0
        """How many connections were closed because they stood still while others waited."""
        self._least = 0
        """No waiting connection has less."""
        self._received = 0
        """What the admitted one had when its progress was last checked."""
        self._warnings = RateLimitedLog()

    def update(self, connection: Connection, buffered: int) -> None:
        """Note how much a connection has now; it is no longer read if that is more than its share."""
        before, connection.buffered = connection.buffered, buffered
        if connection is not self.favoured:
            self.buffered += buffered - before
        elif buffered < before or not connection.splitter.buffered:
            self._end_favour(connection)  # its request is complete
        else:
            return
        limit = self._config.queued_max_request_bytes
        if not connection.is_closed and buffered > max(FREE_BYTES, limit - self.buffered) and limit >= 0:
            self._stop_reading(connection, limit)
        elif connection in self.waiting:
            self._read_on(connection)
        if self.waiting:
            self._share(limit)

    def _end_favour(self, connection: Connection) -> None:
        self.favoured = None
        self.buffered += connection.buffered

    def forget(self, connection: Connection) -> None:
        """Free the bytes of a connection that has ended."""
        if connection.buffered:
            self.update(connection, 0)

    def _stop_reading(self, connection: Connection, limit: int) -> None:
        self._least = min(connection.buffered, self._least) if self.waiting else connection.buffered
        if connection in self.waiting:
            return
        self.waiting[connection] = None
        connection.is_over_share = True
        connection.update_throttle()
        self.waits += 1
        text = "the requests of all connections have %d bytes, queued.max.request.bytes is %d: %s, which has %d,"
        text += " is not read until there is more memory; so it was %d times by now"
        values = self.buffered, limit, connection.peer_host, connection.buffered, self.waits
        self._warnings.warning("memory", self._clock.now_ms, text, *values)

    def _read_on(self, connection: Connection) -> None:
        del self.waiting[connection]
        connection.is_over_share = False
        connection.update_throttle()

    def _share(self, limit: int) -> None:
        """Read on from the connections that are within their share again, and admit one."""
        free = max(FREE_BYTES, limit - self.buffered) if limit >= 0 else self.buffered
        if self._least <= free:
            for connection in [each for each in self.waiting if each.buffered <= free]:
                self._read_on(connection)
            self._least = min((each.buffered for each in self.waiting), default=0)
        if self.favoured is not None:
            return
        receiving = [each for each in self.waiting if each.splitter.buffered and not each.is_blocked]
        if receiving:
            favoured = min(receiving, key=lambda each: each.splitter.frame_bytes)
            self.favoured = favoured
            self.buffered -= favoured.buffered
            self._received = favoured.buffered
            self._read_on(favoured)
            self._timers.arm(_TIMER, self._clock.now_ms + STALL_MS, self._check_progress)

    def _check_progress(self, now_ms: int) -> None:
        """Close the admitted connection if it stands still while others wait."""
        favoured = self.favoured
        if favoured is None:
            return
        self._timers.arm(_TIMER, now_ms + STALL_MS, self._check_progress)
        received, self._received = self._received, favoured.buffered
        if favoured.is_blocked:  # it is not read, so that it cannot continue
            self._end_favour(favoured)
            self.update(favoured, favoured.buffered)
        elif self.waiting and favoured.buffered - received < PROGRESS_BYTES:
            self.closed += 1
            waiting = f"{len(self.waiting)} others wait for memory (queued.max.request.bytes)"
            self._close(
                favoured,
                f"{favoured.buffered} of {favoured.splitter.frame_bytes} bytes of its request came, and less than "
                f"{PROGRESS_BYTES} in the last {STALL_MS // 1000} s, while {waiting}",
            )
