"""Where a consumer begins to read a partition: at the group's committed offset, else by `auto_offset_reset`.

One background task looks up all missing positions at once, and retries what may pass.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.committed_offsets import OffsetAndMetadata, PartitionOffsets
from kohort.client.cluster.list_offsets import list_starts
from kohort.client.cluster.offset_specs import EARLIEST
from kohort.client.cluster.retry import is_worth_a_retry
from kohort.client.consumer.consumer_membership import ConsumerMembership
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.fetcher import Fetcher
from kohort.client.consumer.partition_births import PartitionBirths
from kohort.client.consumer.partition_state import PartitionState, PartitionTable
from kohort.client.synchronization import BroadcastEvent
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Positions:
    """Gives every partition of the table a position; then wakes the fetcher, and notifies `changed`."""

    _cluster: Cluster
    _config: ConsumerConfig
    _partitions: PartitionTable
    _births: PartitionBirths
    _group: ConsumerMembership
    _fetcher: Fetcher
    _changed: BroadcastEvent

    async def run(self) -> None:
        """Look positions up until cancelled."""
        waits = self._cluster.waits()
        wanted = self._partitions.position_wanted
        while True:
            await wanted.wait()
            wanted.clear()
            missing = [state for state in self._partitions if state.needs_position and state.error is None]
            if not missing:
                continue
            try:
                await self._look_up(missing)
                waits.reset()
            except KafkaError as error:
                if is_worth_a_retry(error):
                    log.info("positions are looked up again: %s", error)
                    wanted.set()
                    await asyncio.sleep(waits.next_s())
                else:
                    for state in missing:
                        state.error = state.error or error
            self._fetcher.wake()
            self._changed.notify()

    def seek(self, state: PartitionState, offset: int) -> None:
        """Read a partition on at this offset."""
        self._move(state, offset, "seek")
        self._fetcher.wake()

    async def _look_up(self, missing: list[PartitionState]) -> None:
        """Try the committed offsets, then the reset policy, for partitions that are not moved meanwhile."""
        moves = {state.partition: state.moves for state in missing}
        fresh = [state.partition for state in missing if not state.is_reset_due]
        committed = await self._group.current.committed(fresh) if self._group.group_id is not None and fresh else {}
        to_list: dict[TopicPartition, int] = {}
        later: list[PartitionState] = []
        for state in missing:
            partition = state.partition
            if state.moves != moves[partition]:
                continue
            if (offset := committed.get(partition)) is not None:
                self._move(state, offset.offset, "committed")
                state.leader_epoch = state.consumed_epoch = offset.leader_epoch
                state.committed, state.committed_metadata = offset.offset, offset.metadata
                continue
            by_settings = self._partitions.reset_timestamp(partition, self._config.reset_timestamp())
            timestamp = state.reset_to if state.is_reset_due else by_settings
            if timestamp is None:
                text = (
                    f"{partition} has no committed offset and auto_offset_reset is 'none': commit one, seek, or set"
                    " auto_offset_reset to 'earliest' or 'latest'"
                )
                state.error = KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
            else:
                if timestamp != EARLIEST and not state.is_reset_due and self._births.is_later(partition):
                    timestamp = EARLIEST
                    later.append(state)
                to_list[partition] = timestamp
        if not to_list:
            return
        unknown: set[TopicPartition] = set()  # which delay no other partition
        ends = await list_starts(self._cluster, to_list, isolation=self._config.isolation, gone=unknown)
        begun = [each.partition for each in later if each.moves == moves[each.partition] and each.partition in ends]
        await self._commit_first({each: OffsetAndMetadata(ends[each].offset) for each in begun})
        for state in missing:
            end = ends.get(state.partition)
            if state.moves == moves[state.partition] and end is not None:
                self._move(state, end.offset, "reset")
        if unknown:
            names = ", ".join(map(str, sorted(unknown)))
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the cluster does not have {names}")

    async def _commit_first(self, starts: PartitionOffsets) -> None:
        """Commit where later partitions begin: a member that starts after them cannot know that they are later."""
        for partition, entry in starts.items():
            text = "%s was created while this consumer ran: it is read from its first record on, offset %d"
            log.info(text, partition, entry.offset)
        if (membership := self._group.membership) is not None and starts:
            try:
                await membership.commit(starts)
            except KafkaError as error:
                log.info(
                    "group %s: the beginnings of new partitions are not committed yet: %s", self._group.group_id, error
                )

    def _move(self, state: PartitionState, offset: int, why: str) -> None:
        state.seek(offset)
        state.topic_id = self._cluster.view.topic_id(state.partition.topic)
        self._group.note_position(state.partition, offset, why)
