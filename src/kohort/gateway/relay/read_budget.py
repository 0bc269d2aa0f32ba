"""How many bytes of frames all connections together gather to read them: what goes beyond passes unread.

Without it a thousand clients that each send the beginning of a large JoinGroup would fill the memory.
"""

from __future__ import annotations

READ_BUDGET_BYTES = 256 << 20
"""What a process gathers at most."""

MAX_REQUEST_BYTES = 100 << 20
"""How long a request may be: Kafka's default (`socket.request.max.bytes`)."""

SMALL_BYTES = 4096
"""A frame that is no longer is always read and not counted: a heartbeat, a commit of some partitions."""


class ReadBudget:
    """The bytes that one process may gather."""

    def __init__(self, limit: int = READ_BUDGET_BYTES, max_request_bytes: int = MAX_REQUEST_BYTES) -> None:
        self._limit = limit
        self.max_request_bytes = max_request_bytes
        """A longer request ends its connection, read or not."""
        self.reserved = 0
        """How many bytes are reserved now."""

    def reservation(self) -> Reservation:
        """Return the part of one direction of a connection; it begins empty."""
        return Reservation(self)

    def change(self, by: int) -> bool:
        """Reserve so many bytes more, or fewer; return False, and change nothing, where the limit is reached."""
        if by > 0 and self.reserved + by > self._limit:
            return False
        self.reserved += by
        return True


class Reservation:
    """What one direction of a connection has reserved: one frame at most."""

    __slots__ = ("_budget", "_bytes")

    def __init__(self, budget: ReadBudget) -> None:
        self._budget = budget
        self._bytes = 0

    def reserve(self, length: int) -> bool:
        """Reserve a frame; return whether there is room."""
        if length <= SMALL_BYTES:
            return True
        if not self._budget.change(length):
            return False
        self._bytes += length
        return True

    def release(self) -> None:
        """Give back what was reserved."""
        if self._bytes:
            self._budget.change(-self._bytes)
            self._bytes = 0
