"""The consumer: a member of a group, or on its own, that returns the records of its partitions singly or in batches.

Records count as finished when the user asks for more; that, and nothing before it, is what auto-commit commits.
Heartbeats and rebalances run in the background; callbacks run while the user waits in `poll` or has no records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from kohort.client.arguments import by_partition, topic_partition, topic_partitions, whole_number
from kohort.client.cluster.committed_offsets import GroupMetadata, OffsetAndMetadata, committable
from kohort.client.cluster.list_offsets import UNKNOWN_MS, OffsetAndTimestamp, list_ends, list_offsets
from kohort.client.cluster.offset_specs import EARLIEST, LATEST
from kohort.client.consumer.batch import Batch
from kohort.client.consumer.consumer_membership import ConsumerMembership
from kohort.client.consumer.consumer_metrics import ConsumerMetrics
from kohort.client.consumer.consumer_settings import ConsumerConfig, ConsumerSettings
from kohort.client.consumer.fetcher import FetchCollector, Fetcher
from kohort.client.consumer.offset_commits import OffsetCommits, Offsets, OnComplete
from kohort.client.consumer.partition_births import PartitionBirths
from kohort.client.consumer.partition_state import PartitionTable
from kohort.client.consumer.positions import Positions
from kohort.client.consumer.processing.process_settings import ProcessOptions, ProcessSettings
from kohort.client.consumer.processing.processor import Processor
from kohort.client.consumer.rebalance_callbacks import CallbackGate, RebalanceCallbacks
from kohort.client.consumer.record_iteration import RecordIteration
from kohort.client.consumer.subscription_follower import SubscriptionFollower
from kohort.client.consumer.topic_subscription import Topic, TopicSubscription
from kohort.client.membership.user_callbacks import Lags, ListenerCallback, RebalanceListener, listener_of
from kohort.client.record import K, Record, V
from kohort.client.settings import config_of, takes_settings
from kohort.client.synchronization import BroadcastEvent
from kohort.client.tracing import Tracing, tracing_of
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.assignment import Partitions
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag
from kohort.net.environment import wall_clock
from kohort.wire.record_batches import CorruptBatch

log = logging.getLogger(__name__)

ReturnedT = TypeVar("ReturnedT", Batch[Any, Any], Record[Any, Any])

STOP_TIMEOUT_MS = 30_000
"""How long `stop` may take, as long as Java's `close`."""


class Consumer(Generic[K, V]):
    """Reads topics of one cluster. Settings have Kafka's names, meanings and defaults; times are milliseconds.

    With a `group_id` the topics' partitions are shared with the group's other members; without one this consumer reads
    all of them. A topic may be a regular expression, as in `subscribe`. `async for` yields one record after another,
    `poll` returns batches of at most `max_poll_records` records. `group_protocol` is "classic", where `assignors` of
    this client assign; "consumer" (KIP-848), where the broker does; "auto", the second where the broker takes this
    member there, else the first. K and V are what the deserializers return. `security_protocol`, `sasl_…` and `ssl_…`
    have Kafka's names too; `ConsumerConfig` lists the rest. Raises TypeError for a setting that does not exist,
    ValueError for settings that do not go together.
    """

    @takes_settings(ConsumerConfig)
    def __init__(
        self,
        *topics: Topic,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        own = {"key_deserializer": key_deserializer, "value_deserializer": value_deserializer}
        self._config = config = config_of(ConsumerConfig, settings, **own)
        self._cluster = cluster = config.cluster(metadata_max_age_ms=config.metadata_max_age_ms)
        metrics = RebalanceMetrics(config.max_poll_interval_ms)
        self._metrics = ConsumerMetrics(metrics)
        self._changed = changed = BroadcastEvent()
        self._partitions = partitions = PartitionTable()
        self._gate = CallbackGate(changed)
        self._group = group = ConsumerMembership(cluster, config, metrics, changed)
        self._commits = commits = OffsetCommits(cluster, config, partitions, group, metrics)
        self._fetcher = fetcher = Fetcher(cluster, config, partitions, changed, self._metrics)
        births = PartitionBirths()
        self._positions = Positions(cluster, config, partitions, births, group, fetcher, changed)
        self._collector = FetchCollector(config, partitions, group, fetcher, self._metrics)
        self._iteration = RecordIteration(self._collector, self._gate)
        listener = config.listener or RebalanceListener()
        self._callbacks = RebalanceCallbacks(listener, partitions, self._gate, group, commits, metrics)
        subscription = TopicSubscription.of(topics, internal=not config.exclude_internal_topics)
        self._subscription = SubscriptionFollower(
            subscription, cluster, config, partitions, group, commits, self._callbacks, births
        )
        self._positioning: asyncio.Task[None] | None = None
        self._is_stopping = self._is_polling = False
        self._tracing: Tracing | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        # What was delivered when the user failed is not finished: the partition's next owner reads it again.
        await self.stop(is_finished=error is None)

    @property
    def client_id(self) -> str:
        """The name that brokers know this client by."""
        return self._config.client_id

    @property
    def group_id(self) -> str | None:
        """The group, or None."""
        return self._config.group_id

    async def start(self) -> None:
        """Connect, and begin to join the group or to read; a second time does nothing.

        Raises `BrokerUnreachable`, `UnknownTopic`, RuntimeError after `stop`.
        """
        await self._cluster.start()
        if self._positioning is not None:
            return
        self._tracing = tracing_of(self._config.tracer_provider, self.client_id, self.group_id)
        self._positioning = asyncio.create_task(self._positions.run(), name="kohort consumer positions")
        try:
            if self._subscription.subscription or self._subscription.assigned:
                await self._subscription.apply()
        except BaseException:
            await self.stop()
            raise

    async def stop(
        self, *, timeout_ms: int = STOP_TIMEOUT_MS, is_finished: bool = True, leave_group: bool | None = None
    ) -> None:
        """Commit, give the partitions back, leave the group and end everything; a second time does nothing.

        It takes at most `timeout_ms`, also where no broker answers; to cancel it ends everything at once. Calls of the
        handler of `process` have four fifths of it to finish, if `revocation_timeout_ms` is not less. `is_finished`
        is whether the records returned last count as finished. `leave_group` (KIP-1092): True leaves for good,
        False stays until the session ends, None leaves unless there is a `group_instance_id`.
        """
        limit_s = whole_number("timeout_ms", timeout_ms, 0) / 1000
        if self._positioning is None or self._is_stopping:
            return
        self._is_stopping = True
        self._iteration.end()
        if is_finished:
            self._partitions.mark_consumed()
        self._gate.records_finished()
        now_s = asyncio.get_running_loop().time()
        if (processor := self._callbacks.processor) is not None:
            processor.deadline_s = now_s + limit_s * 4 / 5
        # What is left after the commits is the listener's, and LeaveGroup's.
        self._commits.deadline_s = now_s + limit_s - min(5.0, limit_s / 10)
        self._changed.notify()
        try:
            async with asyncio.timeout_at(now_s + limit_s) as limit:
                await self._commits.wait_for_begun()
                if self._group.membership is not None:
                    await self._group.membership.stop(leave=leave_group)
                else:
                    await self._commits.commit_before_revocation(self._partitions.partitions)
                await self._commits.wait_for_begun()
        except TimeoutError:
            if not limit.expired():
                raise
            text = "group %s: the consumer ended after %d ms although its coordinator did not answer"
            log.warning(text + ": this member stays in the group until its session ends", self.group_id, timeout_ms)
        finally:
            await self._end(self._positioning)

    async def _end(self, positioning: asyncio.Task[None]) -> None:
        try:
            positioning.cancel()
            await self._commits.stop()
            await asyncio.gather(positioning, return_exceptions=True)
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
        on_assigned: ListenerCallback | None = None,
        on_revoked: ListenerCallback | None = None,
        on_lost: ListenerCallback | None = None,
    ) -> None:
        """Read these topics, and no others, from now on; callbacks are a listener's methods or up to three functions.

        A compiled expression, or a text that begins with ^, stands for every topic whose whole name matches, also one
        that is created later; brokers' own topics only with `exclude_internal_topics=False`. A `SubscriptionPattern`
        is resolved by the broker. Raises `UnknownTopic` for a name where there is no group to wait in, ValueError.
        """
        wanted = TopicSubscription.of(topics, internal=not self._config.exclude_internal_topics)
        if not wanted:
            await self.unsubscribe()
            return
        self._subscription.change(wanted)
        if (user := listener_of(listener, on_assigned, on_revoked, on_lost)) is not None:
            self._callbacks.user = user
        if self._positioning is not None:
            await self._subscription.apply()

    def subscription(self) -> frozenset[str]:
        """Return the topics that are read now: those that were named and those that match an expression."""
        return self._subscription.topic_names()

    async def unsubscribe(self) -> None:
        """Give all partitions back and leave the group; `subscribe` or `assign` may follow."""
        self._subscription.change(TopicSubscription())
        if self._positioning is None:
            return
        self._cluster.track_all(is_wanted=False)
        self._partitions.mark_consumed()
        self._gate.records_finished()
        if self._group.membership is not None:
            await self._commits.wait_for_begun()
        await self._group.leave("the consumer unsubscribed from all topics")
        self._partitions.clear()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others, without sharing them; commits go to `group_id` if there is one."""
        self._subscription.assign(frozenset(topic_partitions(partitions)))
        if self._positioning is not None:
            self._subscription.read_assigned()

    def assignment(self) -> Partitions:
        """Return the partitions that this consumer reads."""
        return self._partitions.partitions

    # Records

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[K, V]:
        """Return the next record, however long it takes; raises as `poll`. The record before counts as finished."""
        if (record := self._iteration.next_at_once()) is not None:
            return record
        while not self._is_stopping:
            if records := await self._poll(self._collector.collect_record, None):
                if self._tracing is None:  # else each record has its span of a poll
                    self._iteration.begin(asyncio.get_running_loop().time)
                return records[0]
        raise StopAsyncIteration

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Batch[K, V]]:
        """Return batches of at most `max_records` records in all, waiting at most `timeout_ms` for the first.

        The records of the last call count as finished from now on. Raises what ended the membership, an exception of
        the listener, `CorruptBatch`, OFFSET_OUT_OF_RANGE where there is no reset policy.
        """
        limit = self._config.max_poll_records if max_records is None else whole_number("max_records", max_records, 1)
        return await self._poll(lambda: self._collector.collect(limit), whole_number("timeout_ms", timeout_ms, 0))

    @overload
    async def process(
        self, handler: Callable[[Record[K, V]], object], *, batch: None = None, **how: Unpack[ProcessOptions]
    ) -> None: ...
    @overload
    async def process(
        self, handler: Callable[[list[Record[K, V]]], object], *, batch: int, **how: Unpack[ProcessOptions]
    ) -> None: ...
    async def process(
        self, handler: Callable[[Any], object], *, batch: int | None = None, **how: Unpack[ProcessOptions]
    ) -> None:
        """Call `handler` with each record, many at the same time, until `stop`; commit what has finished.

        A coroutine function runs on the event loop, 1,000 calls at once by default (`concurrency`); a plain function in
        threads, 32 at once; with an `executor` (such as a pool of processes) there. `ordering` is whose order is that
        of the calls: each "key" (records without one have no order), each "partition", or "none". With `batch` the
        handler gets a list of up to so many.

        Committed is the lowest unfinished offset, and in its metadata what has finished above it, which the partition's
        next owner skips. Where partitions are revoked, handlers have `revocation_timeout_ms` to finish; then they are
        cancelled, and their records come again. `on_error` is one policy or several, of which the first that is for an
        exception decides: "stop" (`process` raises it), "skip", a `DeadLetter`, a `Retry`. With `exactly_once`
        handlers return an `OutputRecord`, several, or None, which are written in one transaction with the offsets.

        Raises what a handler raised, what `poll` raises, the `KafkaError` of a dead-letter topic that cannot be
        written; ValueError without a group or without auto-commit; TypeError. Afterwards `poll` and `process` continue
        at the lowest unfinished record.
        """
        settings = ProcessSettings(handler=handler, batch=batch, **how)
        if not self._config.is_auto_committing:
            raise ValueError("process commits what has finished: it needs a group_id, and enable_auto_commit=True")
        if own := settings.policies.dead_letter_topics & self.subscription():
            raise ValueError(f"the dead-letter topic {min(own)} is read by this consumer: its records would fail again")
        if self._callbacks.processor is not None:
            raise RuntimeError("this consumer runs another process")
        subscription = await self._read_too(settings.policies.retry_topics)
        processor = Processor(
            settings,
            self._partitions,
            self._changed,
            self._config,
            self._metrics,
            self._commits.commit_finished,
            self._is_gone,
        )
        self._callbacks.processor = self._metrics.handlers = processor
        self._commits.copies, self._commits.prompt = processor.copies, processor.commits
        self._fetcher.leave_bytes(is_wanted=True)
        self._iteration.end()
        try:
            if processor.copies is not None:
                await processor.copies.start()
            while not self._is_stopping:
                try:
                    batches = await self._poll(lambda: self._collector.collect(processor.room()), None)
                except CorruptBatch as error:
                    processor.add_unreadable(error)
                    continue
                for each in batches:
                    processor.add(each)
        finally:
            await self._end_processing(processor)
            if subscription is not None and not self._is_stopping:
                self._subscription.change(subscription)
                await self._subscription.apply()

    def _is_gone(self, topic: str) -> bool:
        return self._cluster.view.is_gone(topic)

    async def _read_too(self, topics: frozenset[str]) -> TopicSubscription | None:
        """Subscribe to these topics too; return the subscription of before, where that changes it."""
        before = self._subscription.subscription
        self._partitions.read_whole(topics)
        if topics <= set(before.names):
            return None
        if not before:
            raise ValueError("a retry topic is read by subscription, and this consumer has assigned partitions")
        self._subscription.change(replace(before, names=tuple(dict.fromkeys([*before.names, *sorted(topics)]))))
        if self._positioning is not None:
            await self._subscription.apply()
        return before

    async def _end_processing(self, processor: Processor) -> None:
        try:
            await processor.release(self._partitions.partitions)
            if not self._is_stopping:
                await self._commits.commit(self._partitions.finished())
        except KafkaError as error:
            log.warning("group %s: what has finished could not be committed: %s", self.group_id, error.text)
        finally:
            self._callbacks.processor = self._metrics.handlers = self._commits.prompt = None
            self._fetcher.leave_bytes(is_wanted=False)
            await processor.stop()
            if not self._is_stopping and processor.copies is not None:
                self.seek_to_committed()  # what was not written is not finished
                await self._commits.end_copies()
            elif not self._is_stopping:
                for state in self._partitions:
                    if state.finished is not None:
                        self._positions.seek(state, state.finished.offset)

    async def _poll(self, collect: Callable[[], list[ReturnedT]], timeout_ms: int | None) -> list[ReturnedT]:
        if self._positioning is None:
            raise RuntimeError("the consumer is not started: use 'async with Consumer(…)' or await start()")
        if self._is_polling:
            raise RuntimeError("one task at a time may poll a consumer")
        loop = asyncio.get_running_loop()
        deadline_s = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        self._is_polling = True
        self._iteration.end()
        self._metrics.poll_began(int(loop.time() * 1000))
        returned: list[ReturnedT] = []
        try:
            if self._gate.user_has_records:
                self._partitions.mark_consumed()
                self._gate.records_finished()
                self._group.current.enter_poll()
            self._commits.commit_if_due()
            await asyncio.sleep(0)
            while not self._is_stopping:
                self._collector.raise_errors()
                if self._gate.is_open:
                    if returned := collect():
                        self._gate.records_returned()
                        self._group.current.return_poll()
                        break
                    if deadline_s is not None and loop.time() >= deadline_s:
                        break
                self._commits.commit_if_due()
                # What is finished is committed in time, however long no records come.
                until_s = deadline_s if self._gate.is_open else None
                await self._changed.wait(self._commits.next_due_s(until_s))
            return returned
        finally:
            self._is_polling = False
            waited_ms = self._metrics.poll_ended(int(loop.time() * 1000))
            if returned and self._tracing is not None:
                records = [each for one in returned for each in (one if isinstance(one, Batch) else [one])]
                self._tracing.polled(records, waited_ms)

    def processing(self, record: Record[Any, Any]) -> AbstractContextManager[Any]:
        """Return a span of OpenTelemetry for the processing of a record, to be entered by `with`.

        It belongs to the trace in which the record was sent. Without a tracer provider it does nothing, and is None.
        """
        return nullcontext() if self._tracing is None else self._tracing.processing(record)

    # Positions

    async def position(self, partition: TopicPartition, *, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record to be returned, once it is known.

        Raises KeyError where the partition is not assigned, TimeoutError, the `KafkaError` that prevents it.
        """
        partition = topic_partition("partition", partition)
        async with _limit(timeout_ms):
            while True:
                state = self._partitions[partition]
                if (error := state.pop_error()) is not None:
                    raise error
                if state.position is not None and not state.is_reset_due:
                    return state.position
                self._partitions.position_wanted.set()
                await self._changed.wait()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on at this offset. Raises KeyError where the partition is not assigned."""
        offset = whole_number("offset", offset, -(2**63), 2**63 - 1)
        if offset < 0:
            raise ValueError(f"offset {offset} is negative: use seek_to_beginning or seek_to_end")
        self._positions.seek(self._partitions[topic_partition("partition", partition)], offset)

    def seek_to_committed(self) -> None:
        """Read on at the group's committed offsets in all partitions, as after an aborted transaction.

        A partition without one begins where `auto_offset_reset` puts it.
        """
        self._group.require_id()
        for state in self._partitions:
            state.seek(None)
        self._partitions.position_wanted.set()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on at the first offset of these partitions, of all by default."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on after the last record of these partitions, of all by default."""
        self._seek_to(partitions, LATEST)

    def _seek_to(self, partitions: Iterable[TopicPartition] | None, end: int) -> None:
        for partition in self.assignment() if partitions is None else topic_partitions(partitions):
            self._partitions[partition].reset(end)
        self._partitions.position_wanted.set()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`."""
        for partition in topic_partitions(partitions):
            self._partitions[partition].is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        for partition in topic_partitions(partitions):
            self._partitions[partition].is_paused = False
        self._fetcher.wake()
        self._changed.notify()

    def paused(self) -> Partitions:
        """Return the partitions that are paused."""
        return frozenset(state.partition for state in self._partitions if state.is_paused)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition.

        Raises `UnknownTopic` and `UnknownPartition` after five seconds, TimeoutError, `KafkaError`.
        """
        wanted = topic_partitions(partitions)
        async with _limit(timeout_ms):
            return await list_ends(self._cluster, wanted, EARLIEST, unknown_ms=UNKNOWN_MS)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition that may be read. Raises as `beginning_offsets`."""
        wanted = topic_partitions(partitions)
        async with _limit(timeout_ms):
            return await list_ends(self._cluster, wanted, LATEST, self._config.isolation, unknown_ms=UNKNOWN_MS)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return each partition's first offset at or after a time, None where there is none.

        Raises as `beginning_offsets`.
        """
        times = {
            partition: whole_number("a time in milliseconds", at, 0, 2**63 - 1)
            for partition, at in by_partition("times_ms", times_ms).items()
        }
        async with _limit(timeout_ms):
            return await list_offsets(self._cluster, times, isolation=self._config.isolation, unknown_ms=UNKNOWN_MS)

    # The group

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, by default the position of every partition: all that was returned so far.

        Raises `CommitFailed` where the group has moved on, `PartitionErrors`, RuntimeError without a group.
        """
        await self._commits.commit(offsets)

    def commit_async(self, offsets: Offsets | None = None, on_complete: OnComplete | None = None) -> None:
        """Begin to commit as `commit` does and return at once; `on_complete(offsets, error)` is called at the end.

        Without `on_complete` a failure is only logged. What was begun is finished before the consumer stops.
        """
        self._commits.begin_commit(offsets, on_complete)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets; what was never committed is left out. Raises `KafkaError`."""
        self._group.require_id()
        return await self._group.current.committed(topic_partitions(partitions))

    def enforce_rebalance(self, reason: str = "rebalance enforced by user") -> None:
        """Request a rebalance, for a cause that only this program knows. Raises RuntimeError without a group."""
        self._group.current.rejoin(reason)

    def report_standby_lag(self, lags: Lags | Callable[[], Lags]) -> None:
        """Report how many records each standby copy of this program's state is behind, or a function that returns it.

        They are sent to a group of our broker, and to the leader's assignor `tasks` in any classic group: with a join,
        when a copy catches up (`acceptable_recovery_lag`), and when one falls behind for `lag_growth_ms`; the group may
        then get a new assignment. The function is called at once and before each heartbeat and join; it must not block.
        Raises RuntimeError without a group.
        """
        self._group.require_id()
        self._group.report_lags(lags)

    def transaction_offsets(
        self, offsets: Offsets | None = None
    ) -> tuple[GroupMetadata, dict[TopicPartition, OffsetAndMetadata]]:
        """Return who commits which offsets in a producer's transaction, as `Transaction.send_offsets` does.

        By default the position of every partition. Raises RuntimeError where the consumer commits by itself or has no
        group, `CommitFailed` where the group has taken its partitions away.
        """
        if self._config.is_auto_committing:
            raise RuntimeError(
                "this consumer commits by itself: pass enable_auto_commit=False to commit offsets in a transaction"
            )
        wanted = self._partitions.positions() if offsets is None else committable(offsets)
        return self._group.metadata_for(wanted), wanted

    def group_metadata(self) -> GroupMetadata:
        """Return who this consumer is in its group now. Raises RuntimeError without a group."""
        return self._group.metadata()

    def unready(self) -> str:
        """Return why no records are handled or committed now, such as for a probe; an empty text where they are.

        The consumer has not joined its group yet, was stopped, or its last automatic commit failed.
        """
        if self._positioning is None or self._is_stopping:
            return "stopping" if self._is_stopping else "not started"
        if not self._group.has_joined:
            return f"joining group {self.group_id}"
        failure = self._commits.auto_commit_error
        return "" if failure is None else f"the last commit failed: {failure.text}"

    # Measurements

    def metrics(self) -> dict[str, float]:
        """Return what this consumer measured, by the names of docs/metrics.md. Any thread may call it."""
        loop = None if self._positioning is None else self._positioning.get_loop()
        now_ms = 0 if loop is None else int(loop.time() * 1000)
        return self._metrics.values(now_ms, [state.lag for state in list(self._partitions)])

    def lag(self) -> dict[TopicPartition, Lag]:
        """Return how far `poll` is behind in each partition, in records and in seconds, as the last fetches showed it.

        Nothing is requested. Any thread may call it.
        """
        return self._partitions.lags(wall_clock()())


def _limit(timeout_ms: int | None) -> asyncio.Timeout:
    return asyncio.timeout(None if timeout_ms is None else whole_number("timeout_ms", timeout_ms, 0) / 1000)
