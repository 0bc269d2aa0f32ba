"""Reads one partition from its last batches on, and continues where it was after an error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from kohort.client import Consumer
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition

RETRY_S = 5.0
THERE_S = 0.5
"""Between two questions whether there is such a topic by now."""

log = logging.getLogger(__name__)


class TopicFollower:
    """Passes batches of a partition to `fold`: those of the last `past` records at the start, and all new ones."""

    def __init__(
        self, new_consumer: Callable[[], Consumer], partition: TopicPartition, past: int, fold: Callable[[Any], None]
    ) -> None:
        self.problem = ""
        """Why it cannot be read, in a sentence; empty where it can."""
        self._new_consumer = new_consumer
        self._partition = partition
        self._past = past
        self._fold = fold
        self._position: int | None = None

    async def follow(self, is_there: Callable[[], bool]) -> None:
        """Read on until it is cancelled, once there is such a topic."""
        while True:
            if is_there():
                try:
                    await self.read(is_following=True)
                except (KafkaError, OSError, TimeoutError) as error:
                    reason = error.text if isinstance(error, KafkaError) else str(error) or type(error).__name__
                    self.problem = f"{self._partition.topic} cannot be read: {reason}"
                    log.warning("%s", self.problem)
                    await asyncio.sleep(RETRY_S)
            await asyncio.sleep(THERE_S)

    async def read(self, *, is_following: bool) -> None:
        """Read to the end that it has, or on and on. Raises KafkaError, OSError, TimeoutError."""
        partition, consumer = self._partition, self._new_consumer()
        await consumer.start()
        try:
            end = (await consumer.end_offsets([partition]))[partition]
            begin = (await consumer.beginning_offsets([partition]))[partition]
            position = max(begin, min(end - self._past if self._position is None else self._position, end))
            consumer.assign([partition])
            consumer.seek(partition, position)
            while is_following or position < end:
                batches = await consumer.poll(timeout_ms=500, max_records=2_000)
                self.problem = ""
                for batch in batches:
                    self._fold(batch)
                    self._position = position = batch.next_offset
        finally:
            await consumer.stop()
