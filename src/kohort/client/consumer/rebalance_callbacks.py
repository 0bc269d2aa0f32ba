"""What a consumer does around a rebalance, before and after its user's own callbacks.

Revoked: wait until the user has finished its records, commit them, call the user, drop the partitions. Assigned: add
the partitions, call the user, look their positions up. Lost: as revoked, but without a commit. The law (KIP-62): a
callback that gives partitions up never runs while user code still works on their records, and `poll` returns no records
while a callback runs. So what is committed before a revocation is what the user has finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kohort.client.consumer.consumer_membership import ConsumerMembership
from kohort.client.consumer.offset_commits import OffsetCommits
from kohort.client.consumer.partition_state import PartitionTable
from kohort.client.consumer.processing.processor import Processor
from kohort.client.membership.user_callbacks import CallbackAbandoned, RebalanceListener, finished
from kohort.client.synchronization import BroadcastEvent
from kohort.member.effects import Callback
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.assignment import Partitions


class CallbackGate:
    """Mutual exclusion of user code and rebalance callbacks. `changed` is notified whenever it opens or closes."""

    def __init__(self, changed: BroadcastEvent) -> None:
        self._changed = changed
        self._callbacks = self._waiting = 0
        self.user_has_records = False

    @property
    def is_open(self) -> bool:
        """Whether `poll` may return records: no callback runs."""
        return not self._callbacks

    @property
    def is_idle(self) -> bool:
        """Whether no callback runs, and none waits for the user."""
        return not self._callbacks and not self._waiting

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
        self._waiting += 1
        try:
            while waits and self.user_has_records:
                if is_too_late():
                    raise CallbackAbandoned
                await self._changed.wait()
        finally:
            self._waiting -= 1
        self._callbacks += 1
        try:
            yield
        finally:
            self._callbacks -= 1
            self._changed.notify()


@dataclass(eq=False)
class RebalanceCallbacks(RebalanceListener):
    """The listener of a consumer's membership; `user` is the program's own, `processor` the work of `process`."""

    user: RebalanceListener
    _partitions: PartitionTable
    _gate: CallbackGate
    _group: ConsumerMembership
    _commits: OffsetCommits
    _metrics: RebalanceMetrics
    processor: Processor | None = None

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        self._partitions.stop_serving(partitions)
        if self.processor is not None:
            await self.processor.release(partitions, is_lost=self._is_unknown)
        async with self._gate.callback(waits=True, is_too_late=self._is_unknown):
            try:
                await self._commits.commit_before_revocation(partitions)
                await self._call(Callback.REVOKED, self.user.on_partitions_revoked, partitions)
            finally:
                self._partitions.remove(partitions)

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        async with self._gate.callback():
            self._partitions.add(partitions)
            try:
                await self._call(Callback.ASSIGNED, self.user.on_partitions_assigned, partitions)
            finally:
                self._partitions.position_wanted.set()

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        self._partitions.stop_serving(partitions)
        try:
            if self.processor is not None:
                await self.processor.release(partitions, is_lost=lambda: True)
            async with self._gate.callback(waits=True):
                self._commits.warn_of_repeated(partitions, "this member lost the partitions")
                await self._call(Callback.LOST, self.user.on_partitions_lost, partitions)
        finally:
            self._partitions.remove(partitions)

    def _is_unknown(self) -> bool:
        return not self._group.is_known

    async def _call(
        self, callback: Callback, call: Callable[[Partitions], Awaitable[None] | None], partitions: Partitions
    ) -> None:
        raised: BaseException | None = None
        # Only from here on it is the user's own time: what came before was waiting and committing.
        self._metrics.callback_began(int(asyncio.get_running_loop().time() * 1000))
        self._group.note_callback(callback, partitions)
        try:
            await finished(call(partitions))
        except BaseException as error:
            raised = error
            raise
        finally:
            self._group.note_callback_end(callback, partitions, raised)
