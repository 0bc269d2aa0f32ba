"""How much a micro-batch reads, by the limits of its trigger: offsets, bytes, and a delay until there are enough."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import replace

from kohort.spark.membership.owned_partitions import Available
from kohort.spark.options.source_options import TriggerLimits
from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.rounds import OffsetRange, plan


class BatchPlanner:
    """Plans the batches of one query; it remembers when the last one began."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self._last_batch_s = -math.inf

    def start_batch(self) -> None:
        """Count `maxTriggerDelay` from now on."""
        self._last_batch_s = time.monotonic()

    async def in_offsets(self, limits: TriggerLimits, available: Available) -> TriggerLimits | None:
        """Return limits without `max_bytes`, None where there is nothing to estimate bytes by. Raises KafkaError.

        All records of a batch are taken to be as large as the first unread ones of the partition with the most.
        """
        if limits.max_bytes is None:
            return limits
        unread = [OffsetRange(each, *place) for each, place in available.items()]
        fullest = max(unread, key=lambda each: each.size, default=None)
        if fullest is None or fullest.size <= 0:
            return None
        from kohort.spark.rows.read_rows import bytes_per_offset

        size = await asyncio.to_thread(bytes_per_offset, self._settings, fullest)
        most = max(1, int(limits.max_bytes / size)) if size else fullest.size
        return replace(limits, max_bytes=None, max_offsets=min(most, limits.max_offsets or most))

    def ranges(self, limits: TriggerLimits, available: Available, *, is_last: bool) -> tuple[OffsetRange, ...]:
        """Return what the next batch reads, nothing where it waits for more; `is_last`: no more records are read."""
        total = sum(max(0, end - position) for position, end in available.values())
        is_waiting_for_more = total < (limits.min_offsets or 0) and not is_last
        if is_waiting_for_more and (time.monotonic() - self._last_batch_s) * 1000 < limits.max_delay_ms:
            return ()
        return plan(available, limits.max_offsets or total)
