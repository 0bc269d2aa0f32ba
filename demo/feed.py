"""Produces flights to the topic, at a rate or as fast as the broker accepts them, and records their offsets."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from demo.flights import Flight, encode
from kohort.client.producer.accumulator import Delivery
from kohort.client.producer.producer import Producer

_CHUNK = 500


class Feed:
    """Sends flights in the order of the source. `placed` are their ids by partition and offset."""

    def __init__(self, producer: Producer, topic: str, flights: Iterator[Flight]) -> None:
        self.sent = 0
        self.placed: dict[int, dict[int, int]] = {}
        self._producer = producer
        self._topic = topic
        self._flights = flights
        self._under_way: deque[tuple[int, Delivery]] = deque()

    async def send(
        self, most: int, *, rows_per_s: float | None = None, sent: Callable[[int], object] = lambda _: None
    ) -> int:
        """Send up to `most` flights and return how many were sent; `sent` is called with each chunk's size.

        Returns when all of them are acknowledged. Raises KafkaError.
        """
        loop = asyncio.get_running_loop()
        started, count = loop.time(), 0
        while count < most:
            chunk = list(islice(self._flights, min(_CHUNK, most - count)))
            if not chunk:
                break
            for flight in chunk:
                key, value = encode(flight)
                row = flight["id"]
                assert isinstance(row, int), "an id is a row number"
                self._under_way.append((row, await self._producer.send(self._topic, value, key=key)))
            count += len(chunk)
            self._collect()
            sent(len(chunk))
            if rows_per_s is not None:
                await asyncio.sleep(max(0.0, started + count / rows_per_s - loop.time()))
            else:
                await asyncio.sleep(0)
        await self._producer.flush()
        self._collect()
        assert not self._under_way, "after a flush every record's fate is known"
        return count

    def _collect(self) -> None:
        while self._under_way and self._under_way[0][1].done():
            row, delivery = self._under_way.popleft()
            place = delivery.result()
            partition = self.placed.setdefault(place.partition, {})
            assert place.offset not in partition, "an offset holds one record"
            partition[place.offset] = row
            self.sent += 1
