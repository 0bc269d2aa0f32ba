"""How a consumer hands records out: partition after partition, the ones served now last the next time.

A partition whose next record cannot be read is raised by each poll, until its user has moved the position or paused it.
"""

from __future__ import annotations

from kohort.client.consumer.batch import Batch
from kohort.client.consumer.reading import Reading


class HandingOut(Reading):
    """What was fetched, on its way to the user, and the errors that stand in the way."""

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
                limit -= len(batch)
            if is_single or (limit is not None and limit <= 0):
                break
        if has_room:
            self._fetcher.wake()
        if not batches:
            self._raise_errors()  # what came next of a partition may be what cannot be read
        if (membership := self._membership) is not None:
            for batch in batches:
                membership.observer.records_delivered(
                    membership, batch.partition, batch.first_offset, batch.next_offset
                )
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
            if entry.is_at_unreadable and not entry.is_paused and not entry.is_leaving and entry.unreadable is not None:
                raise entry.unreadable.with_traceback(None)
