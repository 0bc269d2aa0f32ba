"""What a consumer says to its group: commits, who it is in the group, and what it measures of all that.

Commits leave one after another, in the order they were asked for: a late one never takes the group back behind a newer
one, however often it is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import NamedTuple

from kohort.client.arguments import topic_partitions
from kohort.client.broadcast_event import BroadcastEvent
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata, commit_offsets, fetch_committed
from kohort.client.cluster.offset_messages import committable
from kohort.client.consumer.consumer_metrics import lag_numbers, lags, measured
from kohort.client.consumer.fetcher import FetchConfig, Fetcher
from kohort.client.errors import RebalanceInProgress
from kohort.client.membership.member_commits import Hold
from kohort.client.membership.membership import Membership
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.assignment import Partitions, in_order
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)

_SYNC_WAIT_MS = 20
_SYNC_PATIENCE_S = 5.0
"""How long a last commit waits for the group's leader to sync."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
Lags = Mapping[TopicPartition, int]
Committed = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], object]


class GroupMetadata(NamedTuple):
    """Who a consumer is in its group; generation -1 before it has joined, in the consumer protocol the member epoch."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Committing:
    """The side of a consumer that faces its group."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str | None,
        config: FetchConfig,
        *,
        enable_auto_commit: bool,
        metrics: RebalanceMetrics,
    ) -> None:
        self.group_id = group_id
        self._cluster = cluster
        self._config = config
        self._is_auto_committing = enable_auto_commit and group_id is not None
        # Half of the rebalance timeout: the listener hears of a revocation however long the commit hangs (KAFKA-13310).
        self._last_commit_s = 150.0
        self._commits_until_s: float | None = None
        self._membership: Membership | None = None
        self._lags: Lags | Callable[[], Lags] | None = None
        self._measured = metrics
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pulse = BroadcastEvent()
        self._fetcher = Fetcher(cluster, config, arrived=self._pulse.notify, adrift=self._look_up)
        self._commit_order = asyncio.Lock()
        self._begun: dict[asyncio.Task[None], None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    @property
    def client_id(self) -> str:
        """The name that brokers know this client by."""
        return self._cluster.client_id

    def assignment(self) -> Partitions:
        """Return the partitions that this consumer reads."""
        return in_order(self._fetcher.tracked)

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, by default the position of every partition: all that was returned so far.

        Raises `CommitFailed` where the group has moved on, `PartitionErrors`, RuntimeError without a group.
        """
        await self._commit(self._to_commit(offsets))

    def commit_async(self, offsets: Offsets | None = None, on_complete: Committed | None = None) -> None:
        """Begin to commit as `commit` does and return at once; `on_complete(offsets, error)` hears how it went.

        Without `on_complete` a failure is only logged. What was begun is finished before the consumer stops.
        """
        wanted = self._to_commit(offsets)
        self._group()
        task = self._spawn(self._commit_soon(wanted, self._hold(wanted), on_complete), "commit")
        self._begun[task] = None
        task.add_done_callback(self._begun.pop)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets; what was never committed is left out. Raises `KafkaError`."""
        group_id, wanted = self._group(), topic_partitions("partitions", partitions)
        if self._membership is not None:
            return await self._membership.committed(wanted)
        return await fetch_committed(self._cluster, group_id, wanted)

    def enforce_rebalance(self, reason: str = "rebalance enforced by user") -> None:
        """Ask for a rebalance, for a cause that only this program knows. Raises RuntimeError without a group."""
        if self._membership is None:
            raise RuntimeError("this consumer is in no group that could rebalance: give a group_id and subscribe")
        self._membership.rejoin(reason)

    def report_standby_lag(self, lags: Lags | Callable[[], Lags]) -> None:
        """Say how many records each standby copy of this program's state is behind, or a function that returns it now.

        They go to a group of our broker with a join, when a copy catches up (`acceptable_recovery_lag`), and when one
        falls behind for `lag_growth_ms`; the group may then get a new assignment. The function is called at once and
        before each heartbeat is sent; it must not block. Raises RuntimeError without a group.
        """
        self._group()
        self._lags = lags
        if self._membership is not None:
            self._take_lags(self._membership)

    def group_metadata(self) -> GroupMetadata:
        """Return who this consumer is in its group now. Raises RuntimeError without a group."""
        group_id = self._group()
        if self._membership is None:
            return GroupMetadata(group_id)
        member = self._membership
        return GroupMetadata(group_id, member.generation, member.member_id, member.group_instance_id)

    def metrics(self) -> dict[str, float]:
        """Return what this consumer measured, by the names of docs/metrics.md. Any thread may ask."""
        now_ms = 0 if self._loop is None else int(self._loop.time() * 1000)
        return self._measured.values(now_ms) | lag_numbers(self._fetcher.tracked)

    def lag(self) -> dict[TopicPartition, int]:
        """Return how many offsets each partition is behind its end, as the last fetches showed it."""
        return lags(self._fetcher.tracked)

    # The inside

    def _take_lags(self, membership: Membership) -> None:
        if self._lags is not None:
            membership.report_lags(self._lags)

    def _look_up(self) -> None:
        raise NotImplementedError

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"kohort consumer {name}")
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def _group(self) -> str:
        if self.group_id is None:
            raise RuntimeError("this consumer has no group: pass group_id to commit offsets")
        return self.group_id

    def _to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return {
                entry.partition: OffsetAndMetadata(entry.position, "", entry.leader_epoch)
                for entry in self._fetcher.tracked.values()
                if entry.position is not None and not entry.is_reset_due
            }
        return committable(offsets)

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        hold = self._hold(offsets)
        try:
            await self._commits_done()
            await self._commit_next(offsets, hold)
        finally:
            self._release(hold)

    def _hold(self, offsets: Iterable[TopicPartition]) -> Hold | None:
        return None if self._membership is None else self._membership.hold(offsets)

    def _release(self, hold: Hold | None) -> None:
        if hold is not None and self._membership is not None:
            self._membership.release(hold)

    async def _commit_next(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], hold: Hold | None) -> None:
        group_id = self._group()
        async with self._commit_order:
            with measured(self._measured, is_asked=bool(offsets)):
                if self._membership is not None:
                    await self._membership.commit(offsets, since=hold)
                else:
                    await commit_offsets(self._cluster, group_id, offsets)
            for partition, committed in offsets.items():
                if (entry := self._fetcher.tracked.get(partition)) is not None:
                    entry.committed = committed.offset
                    if entry.position == committed.offset:
                        entry.take_as_consumed()  # its user said so, in hand or not

    async def _commit_soon(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        hold: Hold | None,
        on_complete: Committed | None,
    ) -> None:
        failure: KafkaError | None = None
        try:
            await self._commit_next(offsets, hold)
        except KafkaError as error:
            failure = error
        finally:
            self._release(hold)
        if on_complete is not None:
            try:
                on_complete(offsets, failure)
            except Exception:
                log.exception("the user's function for a commit that is over failed")
        elif failure is not None:
            log.warning("a commit failed: %s", failure.text)

    async def _commits_done(self, until_s: float | None = None) -> None:
        """Wait for what `commit_async` has begun so far."""
        if self._begun:
            left_s = None if until_s is None else max(0.0, until_s - asyncio.get_running_loop().time())
            await asyncio.wait(tuple(self._begun), timeout=left_s)

    def _finished(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        entries = (self._fetcher.tracked.get(partition) for partition in partitions)
        return {
            entry.partition: OffsetAndMetadata(entry.consumed, "", entry.consumed_epoch)
            for entry in entries
            if entry is not None and entry.consumed is not None and entry.consumed != entry.committed
        }

    async def _auto_commit(self) -> None:
        if self._membership is not None and not self._membership.generation >= 0:
            return
        try:
            await self._commit(self._finished(self._fetcher.tracked))
        except KafkaError as error:
            log.warning("auto-commit: %s", error.text)

    async def _commit_before_join(self) -> None:
        """Commit what is finished before JoinGroup: the coordinator refuses the generation once the round is formed."""
        if not self._is_auto_committing or self._membership is None:
            return
        # No heartbeat leaves before JoinGroup is answered: the member must be back well within its session.
        limit_s = min(self._last_commit_s, self._membership.config.session_timeout_ms / 3000)
        try:
            async with asyncio.timeout(limit_s):
                await self._commit(self._finished(self._fetcher.tracked))
        except KafkaError as error:
            log.info("group %s: nothing was committed before JoinGroup: %s", self.group_id, error.text)
        except TimeoutError:
            log.info("group %s: the coordinator did not answer the commit before JoinGroup", self.group_id)

    async def _commit_before_revocation(self, partitions: Partitions) -> None:
        if not self._is_auto_committing:
            return
        why = "its coordinator did not answer"
        try:
            until_s = asyncio.get_running_loop().time() + self._last_commit_s
            async with asyncio.timeout_at(min(until_s, self._commits_until_s or until_s)):
                await self._commit_between_rounds(partitions)
        except KafkaError as error:
            why = error.text
        except TimeoutError:
            pass
        self._warn_of_repeated(partitions, why)

    async def _commit_between_rounds(self, partitions: Partitions) -> None:
        """Commit what is finished, again while the group's leader has not synced: until then no commit is taken."""
        waits = self._cluster.waits(_SYNC_WAIT_MS)
        until_s = asyncio.get_running_loop().time() + _SYNC_PATIENCE_S
        while True:
            try:
                return await self._commit(self._finished(partitions))
            except RebalanceInProgress:
                if asyncio.get_running_loop().time() >= until_s:
                    raise
            await asyncio.sleep(waits.next_s())

    def _warn_of_repeated(self, partitions: Partitions, why: str) -> None:
        """Warn of records that were finished, were not committed, and will be read again by the next owner."""
        counts = {
            partition: entry.uncommitted
            for partition in sorted(partitions)
            if (entry := self._fetcher.tracked.get(partition)) is not None
            and entry.uncommitted
            and not self._cluster.view.is_gone(partition.topic)
        }
        if self._is_auto_committing and counts:
            listed = ", ".join(f"{partition} ({count})" for partition, count in counts.items())
            text = "group %s: %d finished records could not be committed and will be read again, of %s: %s"
            log.warning(text, self.group_id, sum(counts.values()), listed, why)
