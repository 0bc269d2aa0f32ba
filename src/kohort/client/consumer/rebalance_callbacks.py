"""What a consumer does around a rebalance, before and after its user's own callbacks.

Revoked: wait for the user, commit what it has finished, tell it, forget the partitions. Assigned: follow the
partitions, tell it, look their positions up. Lost: as revoked, but nothing may be committed any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kohort.client.consumer.callback_gate import Turns
from kohort.client.consumer.fetcher import Fetcher
from kohort.client.consumer.partition_state import TrackedPartition
from kohort.client.rebalance_listener import RebalanceListener, finished
from kohort.member.effects import Callback
from kohort.model.assignment import Partitions


class ConsumerRebalance(RebalanceListener):
    """Stands between a membership and a consumer's user. `commit` commits what is finished of some partitions, `lost`
    reports what was finished and can no longer be committed.

    `began` is told when the user's own callback begins: what came before it was waiting and committing; `ended` is told
    when it is over, with what it raised.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        turns: Turns,
        *,
        commit: Callable[[Partitions], Awaitable[None]],
        lost: Callable[[Partitions, str], None],
        is_member: Callable[[], bool],
        looked_for: Callable[[], None],
        began: Callable[[Callback, Partitions], None] = lambda *_: None,
        ended: Callable[[Callback, Partitions, BaseException | None], None] = lambda *_: None,
    ) -> None:
        self.user = RebalanceListener()
        self._fetcher = fetcher
        self._turns = turns
        self._commit = commit
        self._lost = lost
        self._is_member = is_member
        self._looked_for = looked_for
        self._began = began
        self._ended = ended

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        self._stop_handing_out(partitions)
        async with self._turns.callback(waits=True, is_too_late=lambda: not self._is_member()):
            try:
                await self._commit(partitions)
                await self._call(Callback.REVOKED, self.user.on_partitions_revoked, partitions)
            finally:
                self._forget(partitions)

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        async with self._turns.callback():
            for partition in sorted(partitions):
                self._fetcher.tracked[partition] = TrackedPartition(partition)
            try:
                await self._call(Callback.ASSIGNED, self.user.on_partitions_assigned, partitions)
            finally:
                self._looked_for()

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        self._stop_handing_out(partitions)
        try:
            async with self._turns.callback(waits=True):
                self._lost(partitions, "this member lost the partitions")
                await self._call(Callback.LOST, self.user.on_partitions_lost, partitions)
        finally:
            self._forget(partitions)

    async def _call(
        self, callback: Callback, call: Callable[[Partitions], Awaitable[None] | None], partitions: Partitions
    ) -> None:
        raised: BaseException | None = None
        self._began(callback, partitions)
        try:
            await finished(call(partitions))
        except BaseException as error:
            raised = error
            raise
        finally:
            self._ended(callback, partitions, raised)

    def _stop_handing_out(self, partitions: Partitions) -> None:
        for partition in partitions:
            if (tracked := self._fetcher.tracked.get(partition)) is not None:
                tracked.is_leaving = True

    def _forget(self, partitions: Partitions) -> None:
        for partition in partitions:
            self._fetcher.tracked.pop(partition, None)
