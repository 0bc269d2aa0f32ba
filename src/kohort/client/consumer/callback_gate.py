"""Whose turn it is: the user's, who works on what it was handed, or the group's, which runs a callback.

The law: a callback that gives partitions up never runs while the user still works on their records, and nothing is
handed out while a callback runs. So what is committed before a revocation is what the user has finished (KIP-62).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kohort.client.broadcast_event import BroadcastEvent
from kohort.client.rebalance_listener import CallbackAbandoned


class Turns:
    """One consumer's turns. `pulse` beats whenever they change."""

    def __init__(self, pulse: BroadcastEvent) -> None:
        self._pulse = pulse
        self._callbacks = 0
        self.is_user_away = False

    @property
    def is_free(self) -> bool:
        """Whether records may be handed out."""
        return not self._callbacks

    def user_left(self) -> None:
        """The user went off with records."""
        self.is_user_away = True

    def user_returned(self) -> None:
        """The user is done with what it was handed."""
        if self.is_user_away:
            self.is_user_away = False
            self._pulse.notify()

    @asynccontextmanager
    async def callback(
        self, *, waits: bool = False, is_too_late: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[None]:
        """Take the group's turn; with `waits`, once the user has returned. Raises `CallbackAbandoned` if too late."""
        while waits and self.is_user_away:
            if is_too_late():
                raise CallbackAbandoned
            await self._pulse.wait()
        self._callbacks += 1
        try:
            yield
        finally:
            self._callbacks -= 1
            self._pulse.notify()
