"""Where a consumer reads: positions, seeking, pausing, and the offsets that partitions hold.

The part of `Consumer` that has nothing to do with how partitions come and go, or with handing records out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from kohort.client.arguments import by_partition, topic_partition, topic_partitions, whole_number
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.list_offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_ends, list_offsets
from kohort.client.cluster.metadata import ClusterView
from kohort.client.consumer.fetcher import FetchConfig
from kohort.client.consumer.offset_commits import Committing
from kohort.client.consumer.partition_state import TrackedPartition
from kohort.client.consumer.positions import Positions
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition


class Reading(Committing):
    """The partitions that a consumer reads, by whatever way they came to it."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str | None,
        config: FetchConfig,
        *,
        enable_auto_commit: bool,
        metrics: RebalanceMetrics,
    ) -> None:
        super().__init__(cluster, group_id, config, enable_auto_commit=enable_auto_commit, metrics=metrics)
        self._positions = Positions(
            cluster,
            self._fetcher.tracked.values,
            None if group_id is None else self.committed,
            policy=config.reset_policy,
            isolation=config.isolation,
            found=self._arrived,
            moved=self._note_position,
        )

    async def position(self, partition: TopicPartition, *, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record to be returned, once it is known.

        Raises KeyError where the partition is not assigned, TimeoutError, the `KafkaError` that stands in the way.
        """
        limit_s = None if timeout_ms is None else whole_number("timeout_ms", timeout_ms, 0) / 1000
        async with asyncio.timeout(limit_s):
            while True:
                entry = self._entry(partition)
                if entry.error is not None:
                    error, entry.error = entry.error, None
                    raise error
                if entry.position is not None and not entry.is_reset_due:
                    return entry.position
                self._positions.wake()
                await self._pulse.wait()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on at this offset. Raises KeyError where the partition is not assigned."""
        offset = whole_number("offset", offset, -(2**63), 2**63 - 1)
        if offset < 0:
            raise ValueError(f"offset {offset} is negative: use seek_to_beginning or seek_to_end")
        self._entry(partition).move(offset)
        self._note_position(partition, offset, "seek")
        self._fetcher.wake()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on at the first offset of these partitions, of all by default."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on after the last record of these partitions, of all by default."""
        self._seek_to(partitions, LATEST)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`."""
        for partition in topic_partitions("partitions", partitions):
            self._entry(partition).is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        for partition in topic_partitions("partitions", partitions):
            self._entry(partition).is_paused = False
        self._arrived()

    def paused(self) -> Partitions:
        """Return the partitions that are paused."""
        return frozenset(entry.partition for entry in self._fetcher.tracked.values() if entry.is_paused)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition holds. Raises `KafkaError`."""
        return await list_ends(self._cluster, topic_partitions("partitions", partitions), EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition that may be read. Raises `KafkaError`."""
        return await list_ends(
            self._cluster, topic_partitions("partitions", partitions), LATEST, self._config.isolation
        )

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return each partition's first offset at or after a time, None where there is none. Raises `KafkaError`."""
        times = {
            partition: whole_number("a time in milliseconds", at, 0, 2**63 - 1)
            for partition, at in by_partition("times_ms", times_ms).items()
        }
        return await list_offsets(self._cluster, times, isolation=self._config.isolation)

    # The inside

    def _look_up(self) -> None:
        self._positions.wake()

    def _note_position(self, partition: TopicPartition, offset: int, why: str) -> None:
        if (membership := self._membership) is not None:
            membership.observer.position_set(membership, partition, offset, why)

    def _arrived(self) -> None:
        self._fetcher.wake()
        self._pulse.notify()

    def _finish_handed_out(self) -> None:
        for entry in self._fetcher.tracked.values():
            entry.take_as_consumed()

    def _read_all(self, topics: Collection[str], view: ClusterView) -> None:
        """Read every partition of these topics that exists now, and nothing else."""
        tracked = self._fetcher.tracked
        there = {
            TopicPartition(topic, number)
            for topic in topics
            for number in (view.topics[topic].partitions if topic in view.topics else ())
        }
        for partition in [each for each in tracked if each.topic not in topics]:
            del tracked[partition]
        for partition in sorted(there - tracked.keys()):
            tracked[partition] = TrackedPartition(partition)
            self._positions.wake()

    def _seek_to(self, partitions: Iterable[TopicPartition] | None, end: int) -> None:
        for partition in self.assignment() if partitions is None else topic_partitions("partitions", partitions):
            entry = self._entry(partition)
            entry.move(None)
            entry.is_reset_due = True
            entry.reset_to = end
        self._positions.wake()

    def _entry(self, partition: TopicPartition) -> TrackedPartition:
        entry = self._fetcher.tracked.get(topic_partition("partition", partition))
        if entry is None:
            raise KeyError(f"{partition} is not assigned to this consumer")
        return entry
