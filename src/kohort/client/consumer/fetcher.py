"""Fetched records of a consumer: one request in flight to each leader, and how batches reach the user.

The law: what reaches a partition's buffer continues exactly where the buffer ends. A partition that was moved, paused
or revoked while its response was on the way loses nothing but that response. Partitions are served one after another,
the ones served now last the next time. One whose next record cannot be read is raised by each poll, until its user has
moved the position or paused it. All tasks end with `stop`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import Broker, ClusterView
from kohort.client.cluster.offset_specs import EARLIEST, READ_COMMITTED
from kohort.client.consumer.batch import CORRUPT_RESPONSES, Batch, failed_load, unreadable
from kohort.client.consumer.consumer_membership import ConsumerMembership
from kohort.client.consumer.consumer_metrics import ConsumerMetrics
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.partition_state import PartitionState, PartitionTable
from kohort.client.errors import DeserializationFailed, NotReady
from kohort.client.record import Record
from kohort.client.synchronization import BackgroundTasks, BroadcastEvent, wait_until
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.wire.messages import FetchRequest, FetchResponse
from kohort.wire.visible_batches import visible_batches

log = logging.getLogger(__name__)

_NEWEST_BY_NAME = 12
_PREFERENCE_S = 300.0
_FULL_WAIT_MS = 50
_BACKOFF_S = 0.1

FetchedPartition = FetchResponse.Response.Partition


class Fetcher:
    """Fetches for the partitions of the table. `changed` is notified when `poll` should look at it again."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        partitions: PartitionTable,
        changed: BroadcastEvent,
        metrics: ConsumerMetrics,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._partitions = partitions
        self._changed = changed
        self._metrics = metrics
        self._deserializers = config.deserializers
        self._workers: dict[int, tuple[asyncio.Task[None], asyncio.Event]] = {}
        self._loading: set[TopicPartition] = set()
        self._loads = BackgroundTasks("kohort deserializer")
        self._unwatch = cluster.watch(self._follow)

    def wake(self) -> None:
        """Look at every partition again: one was added, moved, resumed, or has room."""
        for leader in {self._source(state) for state in self._partitions} - {-1}:
            if leader not in self._workers:
                event = asyncio.Event()
                task = asyncio.create_task(self._work(leader, event), name=f"kohort fetch from {leader}")
                self._workers[leader] = (task, event)
        for _, event in self._workers.values():
            event.set()

    def _follow(self, _view: ClusterView) -> None:
        """Look at every partition again. Positions of an old topic go before a rebalance would commit them."""
        for state in self._partitions:
            self._check_topic(state)
        self.wake()

    def leave_bytes(self, *, is_wanted: bool) -> None:
        """Return records as bytes from now on, or no longer: the handler's call makes keys and values of them."""
        self._deserializers = None if is_wanted else self._config.deserializers
        for state in self._partitions:
            state.fetch_again()
        self.wake()

    def load(self, state: PartitionState) -> None:
        """Load what a deserializer lacks for the next record of a partition, and read on then."""
        if state.partition not in self._loading:
            self._loading.add(state.partition)
            self._loads.spawn(self._load(state))

    async def _load(self, state: PartitionState) -> None:
        moves, error = state.moves, state.unreadable
        assert isinstance(error, DeserializationFailed), "a deserializer was not ready"
        try:
            failed = await failed_load(error)
        finally:
            self._loading.discard(state.partition)
        if state.moves == moves and failed is None:
            state.fetch_again()
            self.wake()
        elif state.moves == moves:
            state.unreadable = failed
        self._changed.notify()

    async def stop(self) -> None:
        """End every task."""
        self._unwatch()
        self._loads.cancel()
        await self._loads.wait()
        tasks = [task for task, _ in self._workers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._workers.clear()

    def _source(self, state: PartitionState) -> int:
        """Return the node to fetch a partition from: its leader, or the replica the leader prefers (KIP-392)."""
        node, until_s = state.preferred
        if node in self._cluster.view.brokers and asyncio.get_running_loop().time() < until_s:
            return node
        leader = self._cluster.view.leader(state.partition)
        return -1 if leader is None else leader.node_id

    async def _work(self, node_id: int, event: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while True:
            event.clear()
            now_s = loop.time()
            mine = [state for state in self._partitions if self._source(state) == node_id]
            for state in mine:
                self._check_topic(state)
            ready = [state for state in mine if self._may_fetch(state) and state.not_before_s <= now_s]
            broker = self._cluster.view.brokers.get(node_id)
            if not ready or broker is None:
                await wait_until(event, min((t.not_before_s for t in mine if t.not_before_s > now_s), default=None))
                continue
            try:
                is_full = any(state.buffered_bytes >= self._config.max_partition_fetch_bytes for state in mine)
                await self._fetch(broker, ready, is_full=is_full)
            except KafkaError as error:
                log.info("fetching from %s: %s", broker.address, error)
                self._delay(ready)
                self._cluster.request_refresh()
            except Exception:
                log.exception("fetching from %s", broker.address)
                self._delay(ready)

    def _check_topic(self, state: PartitionState) -> None:
        """Move a position of a topic that was deleted and created again: every record of the new topic is unread."""
        topic_id = self._cluster.view.topic_id(state.partition.topic)
        if NO_TOPIC_ID in (topic_id, state.topic_id) or state.fetch_offset is None:
            return
        if topic_id == state.topic_id or state.error is not None:
            return
        what = (
            f"{state.partition}: the topic was deleted and created again, and offset {state.position} is of the old one"
        )
        if self._config.reset_timestamp() is None:
            text = f"{what}; auto_offset_reset is 'none': seek to an offset of the new one (beginning_offsets)"
            state.error = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, text)
            self._changed.notify()
        else:
            log.warning("%s: it is read from its first record on", what)
            state.reset(EARLIEST)
            self._partitions.position_wanted.set()

    def _may_fetch(self, state: PartitionState) -> bool:
        return (
            state.fetch_offset is not None
            and not state.is_paused
            and not state.is_leaving
            and not state.is_reset_due
            and state.error is None
            and state.unreadable is None
            and state.buffered_bytes < self._config.max_partition_fetch_bytes
        )

    async def _fetch(self, broker: Broker, ready: list[PartitionState], *, is_full: bool) -> None:
        config = self._config
        requested: dict[TopicPartition, tuple[PartitionState, int, int]] = {}
        topics: dict[str, FetchRequest.Topic] = {}
        names: dict[bytes, str] = {}
        view = self._cluster.view
        for state in ready:
            name, number = state.partition
            seen = view.topics.get(name)
            topic = topics.get(name)
            if topic is None:
                topic_id = view.topic_id(name)
                names[topic_id] = name
                topic = topics[name] = FetchRequest.Topic(topic=name, topic_id=topic_id)
            found = seen.partitions.get(number) if seen else None
            offset = state.fetch_offset
            assert offset is not None, "only partitions with a position are fetched"
            state.topic_id = topic.topic_id
            requested[state.partition] = (state, state.moves, offset)
            topic.partitions.append(
                FetchRequest.Topic.Partition(
                    partition=number,
                    current_leader_epoch=found.leader_epoch if found else -1,
                    fetch_offset=offset,
                    partition_max_bytes=config.max_partition_fetch_bytes,
                )
            )
        request = FetchRequest(
            # Partitions that are full now may have room in a moment: they should not wait for those that are idle.
            max_wait_ms=min(config.fetch_max_wait_ms, _FULL_WAIT_MS) if is_full else config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=config.isolation,
            topics=list(topics.values()),
            rack_id=config.client_rack or "",
        )
        highest = _NEWEST_BY_NAME if NO_TOPIC_ID in names else None
        clock_s = asyncio.get_running_loop().time
        began_s = clock_s()
        response = await self._cluster.call(broker, request, highest=highest, lane="fetch")
        if response.error_code:
            raise KafkaError(error_for(response.error_code))
        size = sum(len(entry.records or b"") for topic in response.responses for entry in topic.partitions)
        self._metrics.fetched(began_s, clock_s(), size, response.throttle_time_ms)
        for topic_response in response.responses:
            topic_name = topic_response.topic or names.get(topic_response.topic_id, "")
            for entry in topic_response.partitions:
                known = requested.get(TopicPartition(topic_name, entry.partition_index))
                if known is not None and known[0].moves == known[1] and known[0].fetch_offset == known[2]:
                    self._buffer_response(known[0], known[2], entry)

    def _buffer_response(self, state: PartitionState, offset: int, fetched: FetchedPartition) -> None:
        code = error_for(fetched.error_code)
        if code is not ErrorCode.NONE:
            self._apply_error(state, offset, code)
            return
        if fetched.preferred_read_replica >= 0:
            state.preferred = (fetched.preferred_read_replica, asyncio.get_running_loop().time() + _PREFERENCE_S)
            return
        is_committed = self._config.isolation == READ_COMMITTED
        state.end = fetched.last_stable_offset if is_committed else fetched.high_watermark
        if fetched.records is None or not len(fetched.records):
            return
        aborted = None
        if is_committed:
            aborted = [(entry.producer_id, entry.first_offset) for entry in fetched.aborted_transactions or ()]
        visible = visible_batches(
            memoryview(fetched.records),
            offset,
            aborted,
            stop=fetched.high_watermark if fetched.high_watermark >= 0 else None,
            check_crcs=self._config.check_crcs,
        )
        if visible.next_offset > offset:
            state.buffer_batch(
                Batch(
                    state.partition,
                    visible,
                    first_offset=offset,
                    high_watermark=fetched.high_watermark,
                    check_crcs=self._config.check_crcs,
                    deserializers=self._deserializers,
                )
            )
            self._changed.notify()
        else:
            why = "no record batch of the response is whole" if visible.fault is None else visible.fault.text
            self._retry_or_stop(state, offset, why)

    def _retry_or_stop(self, state: PartitionState, offset: int, why: str) -> None:
        """The broker has nothing readable at this offset: another try may help (a replica, a repair), many do not."""
        state.corrupt_responses += 1
        if state.corrupt_responses < CORRUPT_RESPONSES:
            state.not_before_s = asyncio.get_running_loop().time() + _BACKOFF_S
            self._cluster.request_refresh()
            return
        state.stop_at(offset, unreadable(state.partition, offset, None, why))
        self._changed.notify()

    def _apply_error(self, state: PartitionState, offset: int, code: ErrorCode) -> None:
        state.preferred = (-1, 0.0)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            timestamp = self._partitions.reset_timestamp(state.partition, self._config.reset_timestamp())
            if timestamp is not None:
                log.warning("%s: offset %d is out of range, so auto_offset_reset decides", state.partition, offset)
                state.is_reset_due = True
                state.reset_to = timestamp
                self._partitions.position_wanted.set()
            else:
                text = (
                    f"offset {offset} of {state.partition} is out of range and auto_offset_reset is 'none':"
                    " seek to an offset that exists (beginning_offsets, end_offsets)"
                )
                state.error = KafkaError(code, text)
        elif code is ErrorCode.CORRUPT_MESSAGE:
            self._retry_or_stop(state, offset, f"its broker answers {code.name}, {code.text}")
            return
        elif code.is_retriable:
            state.not_before_s = asyncio.get_running_loop().time() + _BACKOFF_S
            self._cluster.request_refresh()
            return
        else:
            state.error = KafkaError(code, f"{state.partition}: {code.text}")
        self._changed.notify()

    def _delay(self, ready: Iterable[PartitionState]) -> None:
        until_s = asyncio.get_running_loop().time() + _BACKOFF_S
        for state in ready:
            state.not_before_s = until_s
            state.preferred = (-1, 0.0)


@dataclass(eq=False)
class FetchCollector:
    """Takes batches or records, and the errors in place of some, out of the table."""

    _config: ConsumerConfig
    _partitions: PartitionTable
    _group: ConsumerMembership
    _fetcher: Fetcher
    _metrics: ConsumerMetrics
    begun: PartitionState | None = None
    """The partition whose record `collect_record` returned last."""

    def collect(self, limit: int) -> list[Batch[Any, Any]]:
        """Return batches of at most `limit` records in all; raise as `raise_errors` does."""
        batches: list[Batch[Any, Any]] = []
        for state in self._with_records():
            if not (most := state.room(limit)):
                continue
            first = state.position
            batch = state.pop_batch(most)
            self._note_moved(state, first)
            if batch is None:
                continue
            batches.append(batch)
            self._partitions.move_to_end(state)
            limit -= len(batch)
            self._metrics.returned += len(batch)
            if limit <= 0:
                break
        if not batches:
            self.raise_errors()  # the next records of a partition may be what cannot be read
        return batches

    def collect_record(self) -> list[Record[Any, Any]]:
        """Return the next record, if there is one; raise as `raise_errors` does."""
        for state in self._with_records():
            if not state.left:
                self._partitions.move_to_end(state)
            if (record := self.next_of(state)) is not None:
                self.begun = state
                return [record]
        self.raise_errors()
        return []

    def next_of(self, state: PartitionState) -> Record[Any, Any] | None:
        """Return the next record of a partition."""
        first = state.position
        record = state.pop_record()
        self._note_moved(state, first)
        if record is not None:
            self._metrics.returned += 1
        return record

    def _note_moved(self, state: PartitionState, first: int | None) -> None:
        """Report what has been returned, and offsets without records that have been passed over."""
        if state.position != first:
            assert first is not None, "a partition with records has a position"
            assert state.position is not None, "and is behind them now"
            self._group.note_delivered(state.partition, first, state.position)

    def _with_records(self) -> Iterator[PartitionState]:
        """Yield the partitions with records, one that has begun first; one that was full and has room is fetched."""
        full_bytes = self._config.max_partition_fetch_bytes
        for state in sorted(self._partitions, key=lambda each: not each.left):
            if state.is_served and state.buffered:
                was_full = state.buffered_bytes >= full_bytes
                try:
                    yield state
                finally:
                    if was_full and state.buffered_bytes < full_bytes:
                        self._fetcher.wake()

    def raise_errors(self) -> None:
        """Raise what ended the membership or a callback raised, and why a partition cannot be read."""
        self._group.current.check()
        for state in self._partitions:
            if (error := state.pop_error()) is not None:
                self._partitions.position_wanted.set()
                self._fetcher.wake()
                raise error
            if state.unreadable is not None and not state.buffered and state.is_served:
                if isinstance(state.unreadable.__cause__, NotReady):
                    self._fetcher.load(state)
                else:
                    raise state.unreadable.with_traceback(None)
