"""Reads the lags of offsets from the leaders of their partitions; `kohort.model.lag` decides.

A look is one Metadata and, for each leader, one Fetch that does not wait. Of a partition whose offset is new it brings
some kilobytes, which have the oldest unread record; of the others only where the log begins and ends. What was read
behind an offset is stored until the offset moves, so that a group that is idle, or stuck, costs no more reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata, fetch_committed, offsets_of_recreated_topics
from kohort.client.cluster.list_offsets import OffsetAndTimestamp, offsets_at
from kohort.client.cluster.metadata import Broker, ClusterView
from kohort.client.cluster.offset_specs import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kohort.client.cluster.retry import retry
from kohort.model.bounded_dict import BoundedDict
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.model.lag import Lag, LagReason, LogEnds, UnreadRecords, lag_of
from kohort.net.environment import wall_clock
from kohort.wire.messages import FetchRequest, FetchResponse, MetadataRequest
from kohort.wire.unread_records import read_unread

ROUNDS = 8
"""How often a look asks for more where the bytes so far have no record."""

RETRIES = 3
"""How often it asks again where a leader has moved, or does not answer."""

READ_BYTES = (16 << 10, 128 << 10, 1 << 20)
"""Bytes of a partition in each round, and in all that follow: a batch comes only as a whole, and may be large."""

RESPONSE_BYTES = 8 << 20
"""The largest response, but for one larger batch."""

REREAD_MS = 300_000
"""After so long an offset that has not moved is read again: a cleaner may have taken the record behind it."""

MOST_GROUPS = 10_000
"""Of how many groups it is stored what was read."""

_NEWEST_BY_NAME = 12

_Unread = dict[tuple[TopicPartition, bytes, int], UnreadRecords]
"""What was read behind an offset of a topic with that id."""


class LagReader:
    """Reads the lags of groups of one cluster. `wall_ms` is the clock of their seconds, by default this machine's."""

    def __init__(self, cluster: Cluster, wall_ms: Callable[[], int] | None = None) -> None:
        self._cluster = cluster
        self._wall_ms = wall_ms
        self._unread: BoundedDict[tuple[str, int], _Unread] = BoundedDict(MOST_GROUPS)

    async def read(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        isolation: int = READ_UNCOMMITTED,
        assigned: Iterable[TopicPartition] = (),
    ) -> dict[TopicPartition, Lag]:
        """Return the lag of a group in these partitions, by default in those that it has committed, and in `assigned`.

        Raises KafkaError where the offsets or the metadata are not to be had; what is wrong with one partition is the
        reason of its lag.
        """
        committed = await fetch_committed(self._cluster, group_id, partitions, is_stable=False)
        wanted = {*(committed if partitions is None else partitions), *assigned}
        offsets = {each: committed.get(each) for each in sorted(wanted)}
        if not offsets:
            return {}
        look = _Look(self._cluster, offsets, isolation, self._unread.get((group_id, isolation), {}))
        await look.refresh()
        wall_ms = self._wall_ms or wall_clock()
        if new := look.new_offsets(wall_ms()):
            for each in await offsets_of_recreated_topics(self._cluster, group_id, new, look.topic_ids):
                look.failed[each] = LagReason.TOPIC_RECREATED
        await look.read()
        self._unread[group_id, isolation] = look.stored()
        return look.lags(wall_ms())


@dataclass
class _Look:
    """One look at offsets. `failed` are partitions without a lag; `again` and `missed` are those of the next round."""

    cluster: Cluster
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    isolation: int
    before: _Unread
    view: ClusterView = field(default_factory=ClusterView)
    unread: dict[TopicPartition, UnreadRecords] = field(default_factory=dict)
    ends: dict[TopicPartition, LogEnds] = field(default_factory=dict)
    failed: dict[TopicPartition, LagReason] = field(default_factory=dict)
    again: list[TopicPartition] = field(default_factory=list)
    missed: list[TopicPartition] = field(default_factory=list)

    async def refresh(self) -> None:
        """Fetch the metadata of the topics: their ids and leaders. Raises KafkaError."""
        topics = [MetadataRequest.Topic(name=name) for name in sorted({each.topic for each in self.offsets})]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        cluster = self.cluster
        response = await retry(
            lambda: cluster.call_any(request), waits=cluster.waits(), timeout_ms=cluster.request_timeout_ms
        )
        self.view = ClusterView.read(response)
        for partition in self.offsets:
            topic = self.view.topics.get(partition.topic)
            if topic is not None and topic.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self.failed[partition] = LagReason.NOT_AUTHORIZED
            elif self.view.is_gone(partition.topic) or (
                topic is not None and topic.partitions and partition.partition not in topic.partitions
            ):
                self.failed[partition] = LagReason.TOPIC_DELETED

    @property
    def topic_ids(self) -> dict[str, bytes]:
        """The ids of the topics of now."""
        return {name: topic.topic_id for name, topic in self.view.topics.items()}

    def new_offsets(self, now_ms: int) -> list[TopicPartition]:
        """Take what was read behind offsets before; return the partitions of the others."""
        for partition, offset in self.offsets.items():
            if offset is not None and partition not in self.failed:
                key = partition, self.view.topic_id(partition.topic), offset.offset
                known = self.before.get(key)
                if known is None or (known.oldest is not None and now_ms - known.began_ms >= REREAD_MS):
                    known = UnreadRecords.at(offset.offset, now_ms)
                known.fault = None
                self.unread[partition] = known
        return [each for each, unread in self.unread.items() if unread.next_offset == unread.start]

    def stored(self) -> _Unread:
        """Return what was read, for the next look."""
        return {
            (partition, self.view.topic_id(partition.topic), offset.offset): self.unread[partition]
            for partition, offset in self.offsets.items()
            if offset is not None and partition in self.unread and partition not in self.failed
        }

    async def read(self) -> None:
        """Ask the leaders until each partition has its answer, or too often. Raises KafkaError."""
        pending, waits = list(self.offsets), self.cluster.waits()
        for number in range(ROUNDS):
            pending = [each for each in pending if each not in self.failed]
            self.again, self.missed = [], [each for each in pending if self.view.leader(each) is None]
            by_leader: dict[Broker, list[TopicPartition]] = {}
            for partition in pending:
                if (leader := self.view.leader(partition)) is not None:
                    by_leader.setdefault(leader, []).append(partition)
            limit = READ_BYTES[min(number, len(READ_BYTES) - 1)]
            await asyncio.gather(*[self._ask(*each, limit) for each in by_leader.items()])
            if number >= RETRIES:
                self.missed.clear()
            elif self.missed:
                await asyncio.sleep(waits.next_s())
                await self.refresh()
            if not (pending := self.again + self.missed):
                break

    def lags(self, now_ms: int) -> dict[TopicPartition, Lag]:
        """Return what was found."""
        found: dict[TopicPartition, Lag] = {}
        for partition, committed in self.offsets.items():
            offset = None if committed is None else committed.offset
            reason, ends = self.failed.get(partition), self.ends.get(partition)
            if reason is not None or ends is None:
                found[partition] = Lag(None, None, reason or LagReason.UNAVAILABLE, offset=offset)
            else:
                unread = self.unread.get(partition) or UnreadRecords.at(ends.start)
                found[partition] = lag_of(offset, ends, unread, now_ms)
        return found

    async def _ask(self, leader: Broker, partitions: list[TopicPartition], limit: int) -> None:
        """Ask one leader about its partitions."""
        lost = [each for each in partitions if each not in self.unread]
        left, size = [each for each in partitions if each in self.unread], RESPONSE_BYTES // limit
        try:
            while left:
                part, left = left[:size], left[size:]
                for partition, answer in (await self._fetch(leader, part, limit)).items():
                    code = error_for(answer.error_code)
                    if code is ErrorCode.NONE:
                        self._take(partition, answer)
                    elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                        self.unread[partition].fault = LagReason.NOT_AUTHORIZED
                        lost.append(partition)
                    else:
                        (lost if code is ErrorCode.OFFSET_OUT_OF_RANGE else self.missed).append(partition)
            if lost:
                await self._look_up_ends(leader, lost)
        except KafkaError:
            self.missed += {*partitions} - self.ends.keys()

    def _place(self, partition: TopicPartition) -> tuple[int, int]:
        """Return where to fetch, and the epoch of the record before it where that is the committed one."""
        unread, committed = self.unread[partition], self.offsets[partition]
        if unread.oldest is not None and not unread.is_counted:
            return unread.end, -1  # only the ends are wanted
        is_first = committed is not None and unread.next_offset == committed.offset
        return unread.next_offset, committed.leader_epoch if is_first and committed is not None else -1

    async def _fetch(
        self, leader: Broker, partitions: Iterable[TopicPartition], limit: int
    ) -> dict[TopicPartition, FetchResponse.Response.Partition]:
        """Fetch without waiting. Raises KafkaError."""
        topics: dict[str, FetchRequest.Topic] = {}
        for partition in partitions:
            name, (offset, epoch) = partition.topic, self._place(partition)
            topic = topics.setdefault(name, FetchRequest.Topic(topic=name, topic_id=self.view.topic_id(name)))
            topic.partitions.append(
                FetchRequest.Topic.Partition(
                    partition=partition.partition,
                    fetch_offset=offset,
                    last_fetched_epoch=epoch,
                    partition_max_bytes=limit if offset == self.unread[partition].next_offset else 1,
                )
            )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=RESPONSE_BYTES,
            isolation_level=self.isolation,
            topics=[*topics.values()],
        )
        names = {each.topic_id: each.topic for each in topics.values()}
        response = await self.cluster.call(leader, request, highest=_NEWEST_BY_NAME if NO_TOPIC_ID in names else None)
        if response.error_code:
            raise KafkaError(error_for(response.error_code))
        return {
            TopicPartition(topic.topic or names.get(topic.topic_id, ""), each.partition_index): each
            for topic in response.responses
            for each in topic.partitions
        }

    def _take(self, partition: TopicPartition, answer: FetchResponse.Response.Partition) -> None:
        """Take what was fetched; more is needed where it has no record yet, and where the log begins later now."""
        if answer.diverging_epoch is not None and answer.diverging_epoch.end_offset >= 0:
            self.failed[partition] = LagReason.LOG_TRUNCATED
            return
        unread, is_committed = self.unread[partition], self.isolation == READ_COMMITTED
        place, _ = self._place(partition)
        start, end = answer.log_start_offset, answer.last_stable_offset if is_committed else answer.high_watermark
        # A new leader has the offset, and learns the high watermark a moment later.
        self._set_ends(partition, LogEnds(start, end, max(answer.high_watermark, place)))
        if start > unread.start:  # what was counted is deleted by now
            self.unread[partition] = UnreadRecords.at(max(unread.start, start), unread.began_ms)
            self.again.append(partition)
            return
        if place == unread.next_offset and answer.records:
            aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
            read_unread(unread, answer.records, aborted if is_committed else None, answer.high_watermark)
        if unread.oldest is None and unread.fault is None and not unread.is_counted:
            self.again.append(partition)

    def _set_ends(self, partition: TopicPartition, ends: LogEnds) -> None:
        self.ends[partition] = ends
        if partition in self.unread:
            self.unread[partition].end = ends.end

    async def _look_up_ends(self, leader: Broker, partitions: list[TopicPartition]) -> None:
        """Look up the ends of logs that have no such offset, or may not be read. Raises KafkaError."""
        deadline_s = asyncio.get_running_loop().time() + self.cluster.request_timeout_ms / 1000
        kinds = ((EARLIEST, READ_UNCOMMITTED), (LATEST, self.isolation), (LATEST, READ_UNCOMMITTED))
        found = {
            kind: await offsets_at(self.cluster, leader, dict.fromkeys(partitions, kind[0]), kind[1], deadline_s)
            for kind in dict.fromkeys(kinds)
        }
        for partition in partitions:
            answers = [found[kind][partition] for kind in kinds]
            numbers = [each.offset for each in answers if isinstance(each, OffsetAndTimestamp)]
            if ErrorCode.TOPIC_AUTHORIZATION_FAILED in answers:
                self.failed[partition] = LagReason.NOT_AUTHORIZED
            elif len(numbers) < len(kinds):
                self.missed.append(partition)
            else:
                self._take_ends(partition, LogEnds(*numbers))

    def _take_ends(self, partition: TopicPartition, ends: LogEnds) -> None:
        unread, committed = self.unread.get(partition), self.offsets[partition]
        is_there = unread is not None and committed is not None and committed.offset <= ends.high_watermark
        if unread is not None and committed is not None and is_there:
            if unread.fault is None and committed.offset >= ends.start and self._place(partition)[1] >= 0:
                self.failed[partition] = LagReason.LOG_TRUNCATED  # the log has the offset, and not its leader epoch
                return
            offset = max(committed.offset, ends.start)
            self.unread[partition] = UnreadRecords(offset, offset, fault=unread.fault, began_ms=unread.began_ms)
            if unread.fault is None:
                self.again.append(partition)
        self._set_ends(partition, ends)
