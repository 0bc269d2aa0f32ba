"""What a user may want to do around a rebalance: three callbacks, all optional.

They run one at a time, never beside each other. While one runs the group waits for this member, at most for the
rebalance timeout; offsets may be committed in `on_partitions_revoked`, and no longer in `on_partitions_lost`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kohort.model.assignment import Partitions

Callback = Callable[[Partitions], Awaitable[None]]


class RebalanceListener:
    """Subclass it and override what you need. An exception is raised again by the next `poll`."""

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        """These partitions are about to go to other members: finish with them. Empty where nothing was owned."""

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        """These partitions are now this member's; nothing of them has been read yet."""

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        """These partitions already belong to others: drop what is half done. Calls `on_partitions_revoked`."""
        await self.on_partitions_revoked(partitions)


class CallbackAbandoned(Exception):
    """Raised by a listener that found no moment to run: the partitions count as still owned."""
