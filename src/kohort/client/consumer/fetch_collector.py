"""How fetched records reach the user: partition after partition, the ones served now come last the next time.

A partition whose next record cannot be read is raised by each poll, until its user has moved the position or paused it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.client.consumer.batch import Batch
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.fetcher import Fetcher
from kohort.client.consumer.group_member import GroupMember
from kohort.client.consumer.partition_state import PartitionTable


@dataclass(eq=False)
class FetchCollector:
    """Takes batches, and the errors in their way, out of the table."""

    _config: ConsumerConfig
    _partitions: PartitionTable
    _group: GroupMember
    _fetcher: Fetcher

    def collect(self, limit: int | None, *, is_single: bool) -> list[Batch]:
        """Return batches of at most `limit` records in all, only one with `is_single`; raise as `raise_errors` does."""
        batches: list[Batch] = []
        full_bytes, has_room = self._config.max_partition_fetch_bytes, False
        for state in list(self._partitions):
            if not state.is_served or not state.buffered:
                continue
            was_full = state.buffered_bytes >= full_bytes
            batch = state.take_batch(limit)
            has_room |= was_full and state.buffered_bytes < full_bytes
            if batch is None:
                continue
            batches.append(batch)
            self._partitions.serve_last(state)
            if limit is not None:
                limit -= len(batch)
            if is_single or (limit is not None and limit <= 0):
                break
        if has_room:
            self._fetcher.wake()
        if not batches:
            self.raise_errors()  # the next records of a partition may be what cannot be read
        self._group.note_delivered(batches)
        return batches

    def raise_errors(self) -> None:
        """Raise what ended the membership or a callback raised, and what keeps a partition from being read."""
        self._group.check()
        for state in self._partitions:
            if (error := state.take_error()) is not None:
                self._partitions.position_wanted.set()
                self._fetcher.wake()
                raise error
            if state.unreadable is not None and not state.buffered and state.is_served:
                raise state.unreadable.with_traceback(None)
