"""What a consumer knows of the partitions it reads: positions, seeking, pausing, committed and other offsets.

The half of `Consumer` that has nothing to do with how partitions come and go, or with handing records out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from kohort.client.cluster import Cluster
from kohort.client.fetcher import FetchConfig, Fetcher
from kohort.client.list_offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_ends, list_offsets
from kohort.client.membership import Membership
from kohort.client.offsets import OffsetAndMetadata, commit_offsets, fetch_committed
from kohort.client.positions import Positions
from kohort.client.pulse import Pulse
from kohort.client.tracked import TrackedPartition
from kohort.model.assignment import Partitions
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class Reading:
    """The partitions that a consumer reads, by whatever way they came to it."""

    def __init__(
        self, cluster: Cluster, group_id: str | None, config: FetchConfig, *, enable_auto_commit: bool
    ) -> None:
        self.group_id = group_id
        self._cluster = cluster
        self._config = config
        self._is_auto_committing = enable_auto_commit and group_id is not None
        self._membership: Membership | None = None
        self._pulse = Pulse()
        self._fetcher = Fetcher(cluster, config, arrived=self._pulse.beat, adrift=self._look_up)
        self._positions = Positions(
            cluster,
            self._fetcher.tracked.values,
            None if group_id is None else self.committed,
            policy=config.reset_policy,
            isolation=config.isolation,
            found=self._arrived,
        )

    def assignment(self) -> Partitions:
        """Return the partitions that this consumer reads."""
        return frozenset(self._fetcher.tracked)

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record to be returned, None while it is looked up. Raises KeyError."""
        return self._entry(partition).position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on at this offset. Raises KeyError where the partition is not assigned."""
        if offset < 0:
            raise ValueError(f"offset {offset} is negative: use seek_to_beginning or seek_to_end")
        self._entry(partition).move(offset)
        self._fetcher.wake()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on at the first offset of these partitions, of all by default."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read on after the last record of these partitions, of all by default."""
        self._seek_to(partitions, LATEST)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`."""
        for partition in partitions:
            self._entry(partition).is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        for partition in partitions:
            self._entry(partition).is_paused = False
        self._arrived()

    def paused(self) -> Partitions:
        """Return the partitions that are paused."""
        return frozenset(entry.partition for entry in self._fetcher.tracked.values() if entry.is_paused)

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, by default the position of every partition: all that was returned so far.

        Raises `CommitFailed` where the group has moved on, `PartitionErrors`, RuntimeError without a group.
        """
        if offsets is None:
            offsets = {
                entry.partition: OffsetAndMetadata(entry.position, "", entry.leader_epoch)
                for entry in self._fetcher.tracked.values()
                if entry.position is not None and not entry.is_reset_due
            }
        await self._commit(
            {
                partition: OffsetAndMetadata(offset) if isinstance(offset, int) else offset
                for partition, offset in offsets.items()
            }
        )

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets; what was never committed is left out. Raises `KafkaError`."""
        return await fetch_committed(self._cluster, self._group(), partitions)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition holds. Raises `KafkaError`."""
        return await list_ends(self._cluster, partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition that may be read. Raises `KafkaError`."""
        return await list_ends(self._cluster, partitions, LATEST, self._config.isolation)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return each partition's first offset at or after a time, None where there is none. Raises `KafkaError`."""
        return await list_offsets(self._cluster, times_ms, isolation=self._config.isolation)

    def metrics(self) -> dict[str, float]:
        """Return numbers about the membership and, as `lag TOPIC-N`, the records that each partition is behind."""
        numbers: dict[str, float] = {"assigned-partitions": len(self.assignment())}
        if self._membership is not None:
            numbers |= self._membership.metrics()
        for entry in self._fetcher.tracked.values():
            if entry.high_watermark is not None and entry.position is not None:
                numbers[f"lag {entry.partition}"] = max(0, entry.high_watermark - entry.position)
        return numbers

    # The inside

    def _look_up(self) -> None:
        self._positions.wake()

    def _arrived(self) -> None:
        self._fetcher.wake()
        self._pulse.beat()

    def _finish_handed_out(self) -> None:
        for entry in self._fetcher.tracked.values():
            entry.take_as_consumed()

    def _seek_to(self, partitions: Iterable[TopicPartition] | None, end: int) -> None:
        for partition in self.assignment() if partitions is None else partitions:
            entry = self._entry(partition)
            entry.move(None)
            entry.is_reset_due = True
            entry.reset_to = end
        self._positions.wake()

    def _entry(self, partition: TopicPartition) -> TrackedPartition:
        entry = self._fetcher.tracked.get(partition)
        if entry is None:
            raise KeyError(f"{partition} is not assigned to this consumer")
        return entry

    def _group(self) -> str:
        if self.group_id is None:
            raise RuntimeError("this consumer has no group: pass group_id to commit offsets")
        return self.group_id

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        group_id = self._group()
        if self._membership is not None:
            await self._membership.commit(offsets)
        else:
            await commit_offsets(self._cluster, group_id, offsets)

    def _finished(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        entries = (self._fetcher.tracked.get(partition) for partition in partitions)
        return {
            entry.partition: OffsetAndMetadata(entry.consumed, "", entry.consumed_epoch)
            for entry in entries
            if entry is not None and entry.consumed is not None and entry.consumed != entry.committed
        }

    async def _auto_commit(self) -> None:
        offsets = self._finished(self._fetcher.tracked)
        if self._membership is not None and not self._membership.generation >= 0:
            return
        try:
            await self._commit(offsets)
        except KafkaError as error:
            log.warning("auto-commit: %s", error.text)
        else:
            for partition, entry in offsets.items():
                if partition in self._fetcher.tracked:
                    self._fetcher.tracked[partition].committed = entry.offset

    async def _commit_before_revocation(self, partitions: Partitions) -> None:
        if not self._is_auto_committing:
            return
        try:
            await self._commit(self._finished(partitions))
        except KafkaError as error:
            log.warning("the records since the last commit will be read again: %s", error.text)
