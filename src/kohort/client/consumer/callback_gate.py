"""Mutual exclusion of user code and rebalance callbacks (KIP-62).

The law: a callback that gives partitions up never runs while user code still works on their records, and `poll` returns
no records while a callback runs. So what is committed before a revocation is what the user has finished.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kohort.client.broadcast_event import BroadcastEvent
from kohort.client.rebalance_listener import CallbackAbandoned


class CallbackGate:
    """One consumer's gate. `changed` is notified whenever it opens or closes."""

    def __init__(self, changed: BroadcastEvent) -> None:
        self._changed = changed
        self._callbacks = 0
        self.user_has_records = False

    @property
    def is_open(self) -> bool:
        """Whether `poll` may return records: no callback runs."""
        return not self._callbacks

    def records_returned(self) -> None:
        """Note that `poll` returned records: the user works on them."""
        self.user_has_records = True

    def records_finished(self) -> None:
        """Note that the user has finished the records of the last `poll`."""
        if self.user_has_records:
            self.user_has_records = False
            self._changed.notify()

    @asynccontextmanager
    async def callback(
        self, *, waits: bool = False, is_too_late: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[None]:
        """Close the gate while the block runs; with `waits`, once the user has finished its records.

        Raises `CallbackAbandoned` where `is_too_late` returns True before that.
        """
        while waits and self.user_has_records:
            if is_too_late():
                raise CallbackAbandoned
            await self._changed.wait()
        self._callbacks += 1
        try:
            yield
        finally:
            self._callbacks -= 1
            self._changed.notify()
