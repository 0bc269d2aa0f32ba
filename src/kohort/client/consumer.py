"""The consumer: a member of a group, or on its own, that yields the records of its partitions batch by batch.

Records count as finished when the user comes back for more; that, and nothing before it, is what auto-commit commits.
Heartbeats and rebalances go on in the background; callbacks run while the user waits here or holds no records.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import random as random_number

from kohort.assign.range import RangeAssignor
from kohort.assign.spec import Assignor
from kohort.assign.sticky import CooperativeStickyAssignor
from kohort.client.batch import Batch
from kohort.client.callbacks import Callback, listener_of
from kohort.client.cluster import Cluster
from kohort.client.fetcher import FetchConfig
from kohort.client.list_offsets import READ_COMMITTED, READ_UNCOMMITTED
from kohort.client.listener import RebalanceListener
from kohort.client.membership import Membership
from kohort.client.positions import reset_policy
from kohort.client.reading import Reading
from kohort.client.rebalance import ConsumerRebalance
from kohort.client.tracked import TrackedPartition
from kohort.client.turns import Turns
from kohort.client.view import ClusterView
from kohort.client.wanted import Topic, wanted
from kohort.member.metrics import RebalanceMetrics
from kohort.member.strategy import strategy_for
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.net.sasl import Sasl

_ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


class Consumer(Reading):
    """Reads topics of one cluster. Settings have Kafka's names, meanings and defaults; times are milliseconds.

    With a `group_id` the topics' partitions are shared with the group's other members; without one this consumer reads
    all of them. A topic may be a regular expression, as in `subscribe`. `max_poll_records` bounds `poll`; `async for`
    yields what one fetch of a partition brought. Raises ValueError for settings that do not go together.
    """

    def __init__(
        self,
        *topics: Topic,
        bootstrap_servers: str | Sequence[str],
        group_id: str | None = None,
        client_id: str = "kohort",
        group_instance_id: str | None = None,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        max_poll_records: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        isolation_level: str = "read_uncommitted",
        check_crcs: bool = True,
        assignors: Sequence[Assignor] = (RangeAssignor(), CooperativeStickyAssignor()),
        listener: RebalanceListener | None = None,
        exclude_internal_topics: bool = True,
        client_rack: str | None = None,
        request_timeout_ms: int = 30_000,
        metadata_max_age_ms: int = 300_000,
        tls: ssl.SSLContext | None = None,
        sasl: Sasl | None = None,
        random: Callable[[], float] = random_number,
    ) -> None:
        _check(isolation_level, heartbeat_interval_ms, session_timeout_ms, group_id)
        cluster = Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            tls=tls,
            sasl=sasl,
            random=random,
        )
        config = FetchConfig(
            min_bytes=fetch_min_bytes,
            max_wait_ms=fetch_max_wait_ms,
            max_bytes=fetch_max_bytes,
            max_partition_bytes=max_partition_fetch_bytes,
            isolation=_ISOLATION[isolation_level],
            rack=client_rack,
            check_crcs=check_crcs,
            reset_policy=reset_policy(auto_offset_reset),
        )
        metrics = RebalanceMetrics(max_poll_interval_ms)
        super().__init__(cluster, group_id, config, enable_auto_commit=enable_auto_commit, metrics=metrics)
        self._last_commit_s = max_poll_interval_ms / 2000
        strategy_for(assignors)  # refuses what does not go together
        self._join = partial(
            Membership,
            cluster,
            assignors=tuple(assignors),
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=max_poll_interval_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            group_instance_id=group_instance_id,
            client_rack=client_rack,
            metrics=metrics,
        )
        self._max_poll_records = max_poll_records
        self._auto_commit_interval_s = auto_commit_interval_ms / 1000
        self._wanted = wanted(topics, internal=not exclude_internal_topics)
        self._begin_idle(listener or RebalanceListener())

    def _begin_idle(self, listener: RebalanceListener) -> None:
        self._topics = self._wanted.names
        self._turns = Turns(self._pulse)
        self._rebalance = ConsumerRebalance(
            self._fetcher,
            self._turns,
            commit=self._commit_before_revocation,
            is_member=lambda: self._membership is not None and bool(self._membership.member_id),
            looked_for=self._positions.wake,
            began=self._note_callback,
        )
        self._rebalance.user = listener
        self._manual: Partitions = frozenset()
        self._is_started = self._is_stopping = self._is_polling = False
        self._next_commit_s = 0.0
        self._unfollow: Callable[[], None] | None = None

    async def __aenter__(self) -> Consumer:
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        # What the user held when it failed is not finished: whoever reads next gets it again.
        await self.stop(is_finished=error is None)

    async def start(self) -> None:
        """Connect, and begin to join the group or to read. Raises `BrokerUnreachable`, `UnknownTopic`."""
        await self._cluster.start()
        self._loop = asyncio.get_running_loop()
        self._is_started = True
        self._spawn(self._positions.run(), "positions")
        try:
            if self._wanted:
                await self._begin()
            elif self._manual:
                self.assign(self._manual)
        except BaseException:
            await self.stop()
            raise

    async def stop(self, *, is_finished: bool = True, leave_group: bool | None = None) -> None:
        """Commit, give the partitions back, leave the group and end everything; a second time does nothing.

        `is_finished` says whether the records handed out last count as finished. `leave_group` (KIP-1092): True leaves
        for good, False stays until the session ends, None leaves unless there is a `group_instance_id`.
        """
        if not self._is_started or self._is_stopping:
            return
        self._is_stopping = True
        if is_finished:
            self._finish_handed_out()
        self._turns.user_returned()
        self._pulse.beat()
        try:
            if self._membership is not None:
                await self._commits_done()
                await self._membership.stop(leave=leave_group)
            elif self._is_auto_committing:
                await self._commit_before_revocation(frozenset(self._fetcher.tracked))
            await self._commits_done()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._fetcher.stop()
            await self._cluster.close()

    # What to read

    async def subscribe(
        self,
        topics: Topic | Iterable[Topic],
        listener: RebalanceListener | None = None,
        *,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Read these topics, and no others, from now on; callbacks are a listener's methods or up to three functions.

        A compiled expression, or a text that begins with ^, stands for every topic whose whole name matches, also one
        that is created later; brokers' own topics only with `exclude_internal_topics=False`. Raises `UnknownTopic`
        for a name where there is no group to wait in, ValueError.
        """
        self._wanted = wanted(topics, internal=self._wanted.internal)
        if not self._wanted:
            await self.unsubscribe()
            return
        self._manual = frozenset()
        if (user := listener_of(listener, on_assigned, on_revoked, on_lost)) is not None:
            self._rebalance.user = user
        if not self._is_started:
            return
        if self._membership is None:
            self._fetcher.tracked.clear()
        await self._begin()

    def subscription(self) -> frozenset[str]:
        """Return the topics that are read now: those that were named and those that match an expression."""
        return frozenset(self._topics)

    async def unsubscribe(self) -> None:
        """Give all partitions back and leave the group; `subscribe` or `assign` may follow."""
        self._wanted = wanted((), internal=self._wanted.internal)
        self._topics = ()
        self._manual = frozenset()
        if not self._is_started:
            return
        self._cluster.track_all(is_wanted=False)
        self._finish_handed_out()
        self._turns.user_returned()
        if self._membership is not None:
            await self._commits_done()
            await self._membership.stop("the consumer unsubscribed from all topics")
            self._membership = None
        self._fetcher.tracked.clear()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others, without sharing them; commits go to `group_id` if there is one."""
        if self._wanted:
            raise RuntimeError("assign and subscribe exclude each other: unsubscribe first")
        self._manual = frozenset(partitions)
        if not self._is_started:
            return
        tracked = self._fetcher.tracked
        for partition in tracked.keys() - self._manual:
            del tracked[partition]
        for partition in sorted(self._manual - tracked.keys()):
            tracked[partition] = TrackedPartition(partition)
        self._cluster.track({partition.topic for partition in self._manual})
        self._cluster.want_refresh()
        self._positions.wake()

    # Records

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> Batch:
        while not self._is_stopping:
            if batches := await self._poll(None, None, is_single=True):
                return batches[0]
        raise StopAsyncIteration

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Batch]:
        """Return batches of at most `max_records` records in all, waiting at most `timeout_ms` for the first.

        Coming here says that what was returned before is finished. Raises what ended the membership, an exception of
        the listener, `CorruptBatch`, OFFSET_OUT_OF_RANGE where there is no reset policy.
        """
        return await self._poll(max_records or self._max_poll_records, timeout_ms)

    async def _poll(self, limit: int | None, timeout_ms: int | None, *, is_single: bool = False) -> list[Batch]:
        if not self._is_started:
            raise RuntimeError("the consumer is not started: use 'async with Consumer(…)' or await start()")
        if self._is_polling:
            raise RuntimeError("one task at a time may poll a consumer")
        loop = asyncio.get_running_loop()
        deadline_s = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        self._is_polling = True
        try:
            self._enter_poll()
            await asyncio.sleep(0)
            while not self._is_stopping:
                self._raise_errors()
                if self._turns.is_free:
                    if batches := self._hand_out(limit, is_single=is_single):
                        self._leave_poll()
                        return batches
                    if deadline_s is not None and loop.time() >= deadline_s:
                        break
                await self._pulse.wait(deadline_s if self._turns.is_free else None)
            return []
        finally:
            self._is_polling = False

    def _enter_poll(self) -> None:
        if self._turns.is_user_away:
            self._finish_handed_out()
            self._turns.user_returned()
            if self._membership is not None:
                self._membership.enter_poll()
        now_s = asyncio.get_running_loop().time()
        if self._is_auto_committing and now_s >= self._next_commit_s:
            self._next_commit_s = now_s + self._auto_commit_interval_s
            self._spawn(self._auto_commit(), "auto-commit")

    def _leave_poll(self) -> None:
        self._turns.user_left()
        if self._membership is not None:
            self._membership.return_poll()

    def _hand_out(self, limit: int | None, *, is_single: bool) -> list[Batch]:
        """Take batches from partition after partition; the ones served now come last the next time."""
        tracked = self._fetcher.tracked
        batches: list[Batch] = []
        has_room = False
        for entry in list(tracked.values()):
            if entry.is_paused or entry.is_leaving or not entry.ahead:
                continue
            was_full = entry.ahead_bytes >= self._config.max_partition_bytes
            batch = entry.hand_out(limit)
            has_room |= was_full and entry.ahead_bytes < self._config.max_partition_bytes
            if batch is None:
                continue
            batches.append(batch)
            tracked[entry.partition] = tracked.pop(entry.partition)
            if limit is not None:
                limit -= len(batch.records) if batch.most_records > limit else batch.most_records
            if is_single or (limit is not None and limit <= 0):
                break
        if has_room:
            self._fetcher.wake()
        return batches

    def _raise_errors(self) -> None:
        if self._membership is not None:
            self._membership.check()
        for entry in self._fetcher.tracked.values():
            if entry.error is not None:
                error, entry.error = entry.error, None
                self._positions.wake()
                self._fetcher.wake()
                raise error

    # The inside

    async def _begin(self) -> None:
        """Join the group, or tell it of another subscription; without a group begin to read."""
        has_patterns = bool(self._wanted.patterns)
        self._cluster.track_all(is_wanted=has_patterns)
        if has_patterns:
            await self._cluster.refresh()
        self._topics = self._wanted.topics(self._cluster.view)
        if self.group_id is None:
            for topic in self._wanted.names:
                await self._cluster.topic(topic)
        elif self._membership is not None:
            self._membership.subscribe(self._topics, self._wanted.pattern)
        else:
            self._membership = self._join(
                self.group_id, topics=self._topics, matches=self._wanted.pattern, listener=self._rebalance
            )
            self._membership.on_change = self._pulse.beat
            self._membership.begin()
        self._follow(self._cluster.view)
        self._unfollow = self._unfollow or self._cluster.watch(self._follow)

    def _follow(self, view: ClusterView) -> None:
        """See topics that an expression matches come and go; without a group, partitions too."""
        topics = self._wanted.topics(view)
        if self._membership is not None:
            if topics != self._topics:
                self._membership.subscribe(topics, self._wanted.pattern)
            self._topics = topics
        elif self._wanted:
            self._topics = topics
            self._read_all(topics, view)

    def _note_callback(self) -> None:
        self._measured.callback_began(int(asyncio.get_running_loop().time() * 1000))


def _check(isolation_level: str, heartbeat_interval_ms: int, session_timeout_ms: int, group_id: str | None) -> None:
    """Refuse what cannot be meant."""
    if isolation_level not in _ISOLATION:
        raise ValueError(f"isolation_level={isolation_level!r} is not one of {', '.join(_ISOLATION)}")
    if heartbeat_interval_ms >= session_timeout_ms:
        raise ValueError("heartbeat_interval_ms must be less than session_timeout_ms, a third of it at most")
    if group_id == "":
        raise ValueError("group_id is empty: name a group, or pass None to read without one")
