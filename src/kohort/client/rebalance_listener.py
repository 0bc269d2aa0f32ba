"""Rebalance listener: three callbacks around a rebalance, all optional.

They run one at a time, never beside each other. While one runs the group waits for this member, at most for the
rebalance timeout; offsets may be committed in `on_partitions_revoked`, and no longer in `on_partitions_lost`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable

from kohort.model.assignment import Partitions

Callback = Callable[[Partitions], Awaitable[None] | None]


class RebalanceListener:
    """Subclass it and override what you need, with `async def` or plain `def`.

    A plain method of a listener of `kohort.sync` runs on the program's thread, any other on the loop's: it must not
    block. An exception is raised again by the next `poll`.
    """

    def on_partitions_revoked(self, partitions: Partitions) -> Awaitable[None] | None:
        """These partitions are about to go to other members: finish with them. Empty where nothing was owned."""

    def on_partitions_assigned(self, partitions: Partitions) -> Awaitable[None] | None:
        """These partitions are now this member's; nothing of them has been read yet."""

    def on_partitions_lost(self, partitions: Partitions) -> Awaitable[None] | None:
        """These partitions already belong to others: drop what is half done. Calls `on_partitions_revoked`."""
        return self.on_partitions_revoked(partitions)


async def finished(outcome: object) -> None:
    """Wait for what a listener's method returned, if it can be awaited: a plain function may return any value."""
    if isawaitable(outcome):
        await outcome


class CallbackAbandoned(Exception):
    """Raised by a listener that could not run in time: the partitions count as still owned."""


class Callbacks(RebalanceListener):
    """Calls the functions that were given; `on_lost` is `on_revoked` unless it was given too, as in Java."""

    def __init__(self, on_assigned: Callback | None, on_revoked: Callback | None, on_lost: Callback | None) -> None:
        self._assigned = on_assigned
        self._revoked = on_revoked
        self._lost = on_lost or on_revoked

    def on_partitions_assigned(self, partitions: Partitions) -> Awaitable[None] | None:
        return None if self._assigned is None else self._assigned(partitions)

    def on_partitions_revoked(self, partitions: Partitions) -> Awaitable[None] | None:
        return None if self._revoked is None else self._revoked(partitions)

    def on_partitions_lost(self, partitions: Partitions) -> Awaitable[None] | None:
        return None if self._lost is None else self._lost(partitions)


def listener_of(
    listener: RebalanceListener | None,
    on_assigned: Callback | None,
    on_revoked: Callback | None,
    on_lost: Callback | None,
) -> RebalanceListener | None:
    """Return the listener, or one of the functions, or None where neither was given. Raises ValueError for both."""
    if on_assigned is None and on_revoked is None and on_lost is None:
        return listener
    if listener is not None:
        raise ValueError("give a listener or the functions on_assigned, on_revoked and on_lost, not both")
    return Callbacks(on_assigned, on_revoked, on_lost)
