"""A rebalance listener made of three functions, for programs that need no class."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kohort.client.rebalance_listener import RebalanceListener
from kohort.model.assignment import Partitions

Callback = Callable[[Partitions], Awaitable[None] | None]


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
