"""The consumer: a member of a group, or on its own, that yields the records of its partitions batch by batch.

Records count as finished when the user comes back for more; that, and nothing before it, is what auto-commit commits.
Heartbeats and rebalances go on in the background; callbacks run while the user waits here or holds no records.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Unpack

from kohort.assign.spec import Assignor
from kohort.client.arguments import topic_partitions, whole_number
from kohort.client.callbacks import Callback, listener_of
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import ClusterView
from kohort.client.consumer.batch import Batch
from kohort.client.consumer.callback_gate import Turns
from kohort.client.consumer.consumer_settings import (
    DEFAULT_ASSIGNORS,
    DEFAULT_HEARTBEAT_INTERVAL_MS,
    DEFAULT_SESSION_TIMEOUT_MS,
    ISOLATION,
    ConsumerSettings,
    check_protocol,
    check_settings,
    check_wanted,
    deserializers,
    native_settings,
)
from kohort.client.consumer.fetch_collector import HandingOut
from kohort.client.consumer.fetcher import FetchConfig
from kohort.client.consumer.partition_state import TrackedPartition
from kohort.client.consumer.positions import reset_policy
from kohort.client.consumer.rebalance_callbacks import ConsumerRebalance
from kohort.client.consumer.topic_subscription import Topic, wanted
from kohort.client.membership.membership import Membership
from kohort.client.membership.protocol_driver import new_member_id
from kohort.client.membership.protocol_switch import GroupProtocol
from kohort.client.rebalance_listener import RebalanceListener
from kohort.client.settings import AutoOffsetReset, IsolationLevel, understood
from kohort.member.effects import Callback as Rebalanced
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.net.environment import random as random_number
from kohort.net.sasl import Sasl

log = logging.getLogger(__name__)

STOP_TIMEOUT_MS = 30_000
"""How long `stop` may take, as long as Java's `close`."""


class Consumer(HandingOut):
    """Reads topics of one cluster. Settings have Kafka's names, meanings and defaults; times are milliseconds.

    With a `group_id` the topics' partitions are shared with the group's other members; without one this consumer reads
    all of them. A topic may be a regular expression, as in `subscribe`. `max_poll_records` bounds `poll`; `async for`
    yields what one fetch of a partition brought. `group_protocol` is "classic", where `assignors` of this client
    assign; "consumer" (KIP-848), where the broker does; "auto", the second where the broker takes this member there,
    else the first. `more` are settings of the second, and `security_protocol`, `sasl_…`, `ssl_…` with Kafka's names.
    Raises TypeError for a setting that does not exist, ValueError for settings that do not go together.
    """

    @understood(ConsumerSettings)
    def __init__(
        self,
        *topics: Topic,
        bootstrap_servers: str | Sequence[str],
        group_id: str | None = None,
        client_id: str = "kohort",
        group_instance_id: str | None = None,
        auto_offset_reset: AutoOffsetReset = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        heartbeat_interval_ms: int = DEFAULT_HEARTBEAT_INTERVAL_MS,
        max_poll_interval_ms: int = 300_000,
        max_poll_records: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        isolation_level: IsolationLevel = "read_uncommitted",
        check_crcs: bool = True,
        assignors: Sequence[Assignor] = DEFAULT_ASSIGNORS,
        group_protocol: GroupProtocol = "classic",
        listener: RebalanceListener | None = None,
        exclude_internal_topics: bool = True,
        client_rack: str | None = None,
        request_timeout_ms: int = 30_000,
        metadata_max_age_ms: int = 300_000,
        tls: ssl.SSLContext | None = None,
        sasl: Sasl | None = None,
        random: Callable[[], float] = random_number,
        **more: Unpack[ConsumerSettings],
    ) -> None:
        assignor = more.get("group_remote_assignor")
        check_settings(isolation_level, group_id, session_timeout_ms, heartbeat_interval_ms)
        check_protocol(group_protocol, assignors, session_timeout_ms, heartbeat_interval_ms, assignor)
        cluster = Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            tls=tls,
            sasl=sasl,
            random=random,
        )
        bounds = (fetch_min_bytes, fetch_max_wait_ms, fetch_max_bytes, max_partition_fetch_bytes)
        reset, isolation = reset_policy(auto_offset_reset), ISOLATION[isolation_level]
        config = FetchConfig(*bounds, isolation, client_rack, check_crcs, reset, deserializers(more))
        metrics = RebalanceMetrics(max_poll_interval_ms)
        super().__init__(cluster, group_id, config, enable_auto_commit=enable_auto_commit, metrics=metrics)
        self._last_commit_s = max_poll_interval_ms / 2000
        self._join = partial(
            Membership,
            cluster,
            assignors=tuple(assignors),
            protocol=group_protocol,
            assignor=assignor,
            member_id=new_member_id(),
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=max_poll_interval_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            group_instance_id=group_instance_id,
            client_rack=client_rack,
            metrics=metrics,
            **native_settings(more),
        )
        self._max_poll_records = max_poll_records
        self._auto_commit_interval_s = auto_commit_interval_ms / 1000
        self._wanted = wanted(topics, internal=not exclude_internal_topics)
        self._begin_idle(listener or RebalanceListener(), group_protocol)

    def _begin_idle(self, listener: RebalanceListener, protocol: GroupProtocol) -> None:
        self._protocol = protocol
        check_wanted(protocol, self.group_id, self._wanted)
        self._topics = self._wanted.names
        self._turns = Turns(self._pulse)
        self._rebalance = ConsumerRebalance(
            self._fetcher,
            self._turns,
            commit=self._commit_before_revocation,
            lost=self._warn_of_repeated,
            is_member=lambda: self._membership is not None and self._membership.is_known,
            looked_for=self._positions.wake,
            began=self._note_callback,
            ended=self._note_end,
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
        """Connect, and begin to join the group or to read; a second time does nothing.

        Raises `BrokerUnreachable`, `UnknownTopic`, RuntimeError after `stop`.
        """
        await self._cluster.start()
        if self._is_started:
            return
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

    async def stop(
        self, *, timeout_ms: int = STOP_TIMEOUT_MS, is_finished: bool = True, leave_group: bool | None = None
    ) -> None:
        """Commit, give the partitions back, leave the group and end everything; a second time does nothing.

        It takes at most `timeout_ms`, also where no broker answers; to cancel it ends everything at once. `is_finished`
        says whether the records handed out last count as finished. `leave_group` (KIP-1092): True leaves for good,
        False stays until the session ends, None leaves unless there is a `group_instance_id`.
        """
        limit_s = whole_number("timeout_ms", timeout_ms, 0) / 1000
        if not self._is_started or self._is_stopping:
            return
        self._is_stopping = True
        if is_finished:
            self._finish_handed_out()
        self._turns.user_returned()
        self._pulse.notify()
        now_s = asyncio.get_running_loop().time()
        # What is left after the commits is the listener's, and LeaveGroup's, which is given five seconds.
        self._commits_until_s = now_s + limit_s - min(5.0, limit_s / 4)
        try:
            async with asyncio.timeout_at(now_s + limit_s) as limit:
                await self._give_up(leave_group)
        except TimeoutError:
            if not limit.expired():
                raise
            text = "group %s: the consumer ended after %d ms although its coordinator did not answer"
            log.warning(text + ": the group keeps this member until its session ends", self.group_id, timeout_ms)
        finally:
            await self._end()

    async def _give_up(self, leave_group: bool | None) -> None:
        await self._commits_done(self._commits_until_s)
        if self._membership is not None:
            await self._membership.stop(leave=leave_group)
        elif self._is_auto_committing:
            await self._commit_before_revocation(frozenset(self._fetcher.tracked))
        await self._commits_done(self._commits_until_s)

    async def _end(self) -> None:
        try:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            try:
                await self._fetcher.stop()
            finally:
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
        that is created later; brokers' own topics only with `exclude_internal_topics=False`. A `SubscriptionPattern`
        is resolved by the broker. Raises `UnknownTopic` for a name where there is no group to wait in, ValueError.
        """
        new = wanted(topics, internal=self._wanted.internal)
        check_wanted(self._protocol, self.group_id, new)
        self._wanted = new
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
        return frozenset(self._topics).union(topic for topic, _ in self._fetcher.tracked if self._wanted.for_broker)

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
        self._manual = frozenset(topic_partitions("partitions", partitions))
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
        limit = self._max_poll_records if max_records is None else whole_number("max_records", max_records, 1)
        return await self._poll(limit, whole_number("timeout_ms", timeout_ms, 0))

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
                self._commit_if_due()
                await self._pulse.wait(self._until_s(deadline_s if self._turns.is_free else None))
            return []
        finally:
            self._is_polling = False

    def _enter_poll(self) -> None:
        if self._turns.is_user_away:
            self._finish_handed_out()
            self._turns.user_returned()
            if self._membership is not None:
                self._membership.enter_poll()
        self._commit_if_due()

    def _commit_if_due(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._is_auto_committing and now_s >= self._next_commit_s:
            self._next_commit_s = now_s + self._auto_commit_interval_s
            self._spawn(self._auto_commit(), "auto-commit")

    def _until_s(self, deadline_s: float | None) -> float | None:
        """Return until when to wait for records: what is finished is committed in time, however long there are none."""
        if not self._is_auto_committing:
            return deadline_s
        return self._next_commit_s if deadline_s is None else min(deadline_s, self._next_commit_s)

    def _leave_poll(self) -> None:
        self._turns.user_left()
        if self._membership is not None:
            self._membership.return_poll()

    # The inside

    async def _begin(self) -> None:
        """Join the group, or tell it of another subscription; without a group begin to read."""
        has_patterns = bool(self._wanted.patterns or (self._wanted.for_broker and self._protocol == "auto"))
        self._cluster.track_all(is_wanted=has_patterns)
        if has_patterns:
            await self._cluster.refresh()
        self._topics = self._wanted.topics(self._cluster.view)
        if self.group_id is None:
            for topic in self._wanted.names:
                await self._cluster.topic(topic)
        elif self._membership is not None:
            self._tell(self._membership)
        else:
            self._membership = self._join(
                self.group_id,
                topics=self._topics,
                matches=self._wanted.pattern,
                names=self._wanted.named(self._cluster.view),
                regex=self._wanted.regex,
                listener=self._rebalance,
            )
            self._membership.on_change = self._pulse.notify
            self._membership.before_join = self._commit_before_join
            self._take_lags(self._membership)
            self._membership.begin()
        self._follow(self._cluster.view)
        self._unfollow = self._unfollow or self._cluster.watch(self._follow)

    def _tell(self, membership: Membership) -> None:
        names = self._wanted.named(self._cluster.view)
        membership.subscribe(self._topics, self._wanted.pattern, names=names, regex=self._wanted.regex)

    def _follow(self, view: ClusterView) -> None:
        """See topics that an expression matches come and go; without a group, partitions too."""
        topics = self._wanted.topics(view)
        if self._membership is not None:
            if topics != self._topics:
                self._topics = topics
                self._tell(self._membership)
        elif self._wanted:
            self._topics = topics
            self._read_all(topics, view)

    def _note_callback(self, callback: Rebalanced, partitions: Partitions) -> None:
        self._measured.callback_began(int(asyncio.get_running_loop().time() * 1000))
        if (membership := self._membership) is not None:
            membership.observer.callback_began(membership, callback, partitions)

    def _note_end(self, callback: Rebalanced, partitions: Partitions, error: BaseException | None) -> None:
        if (membership := self._membership) is not None:
            membership.observer.callback_ended(membership, callback, partitions, error)
