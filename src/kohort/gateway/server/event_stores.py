"""Where a gateway stores the events of groups: a file of JSON lines, or the topic of events on the user's own cluster.

`kohort explain --events FILE` reads the file; the topic is the one that our broker writes, so that every command that
reads it works for groups of Apache Kafka. `RebalanceCounts` stands in front of either.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kohort.client.admin.admin import Admin
from kohort.client.producer.accumulator import Delivery
from kohort.client.producer.producer import Producer
from kohort.group.explain.rebalance_counter import RebalanceCounter
from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import EVENT_TOPIC
from kohort.node.groups.event_topic import EventStore, lost_fields
from kohort.wire.record_batches import Record

log = logging.getLogger("kohort.gateway")

FILE_BYTES = 256 << 20
"""A file that is longer is renamed to `NAME.1`, in place of the one before, and a new one begins."""

QUEUED_RECORDS = 50_000
"""How many records wait for the cluster; more are lost, which the next event of their group reports."""

BATCH_RECORDS = 500

AGAIN_SECONDS = 1.0
"""How long to wait after events could not be written."""

RETENTION_MS = 7 * 24 * 3_600_000
"""The retention of the topic, where the gateway makes it."""

NAMES_WAIT_MS = 3_000
"""How long events wait for the name of a new topic, which is looked up then."""

TopicNames = Callable[[bytes], str | None]
"""Returns the name of a topic id of the cluster, or None."""


class NoStore:
    """An `EventStore` that stores nothing."""

    names_wait_ms = 0

    def __init__(self, topic_name: TopicNames) -> None:
        self.topic_name = topic_name

    def append(self, records: list[Record], now_ms: int) -> None:
        """Drop a batch."""


class EventFile:
    """A file of JSON lines, one for each event."""

    names_wait_ms = NAMES_WAIT_MS

    def __init__(self, path: Path, topic_names: TopicNames) -> None:
        self.path = path
        self.topic_name = topic_names

    def append(self, records: list[Record], now_ms: int) -> None:
        """Append a batch. Raises StorageError."""
        del now_ms
        try:
            with self.path.open("ab") as file:
                file.write(b"".join((record.value or b"") + b"\n" for record in records))
                is_full = file.tell() >= FILE_BYTES
            if is_full:
                self.path.replace(self.path.with_name(self.path.name + ".1"))
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror or error}") from error


class ClusterEvents:
    """The topic of events on the cluster. `run` is the task that sends by `producer`."""

    names_wait_ms = NAMES_WAIT_MS

    def __init__(self, producer: Producer, topic_names: TopicNames) -> None:
        self._producer = producer
        self.topic_name = topic_names
        self._queue: asyncio.Queue[Record] = asyncio.Queue(QUEUED_RECORDS)

    async def start(self, admin: Admin) -> None:
        """Make the topic where there is none. Raises `KafkaError`, as where it must not be made."""
        await self._producer.start()
        try:
            await admin.create_topic(EVENT_TOPIC, 1, configs={"retention.ms": str(RETENTION_MS)})
        except KafkaError as error:
            if error.code is ErrorCode.INVALID_REQUEST:
                advice = "A broker of kohort keeps events itself: leave --events out, or give a file"
                raise KafkaError(error.code, f"{error.text} {advice}") from None
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def append(self, records: list[Record], now_ms: int) -> None:
        """Queue a batch. Raises POLICY_VIOLATION where too much waits already."""
        del now_ms
        if self._queue.qsize() + len(records) > QUEUED_RECORDS:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{self._queue.qsize()} events wait for the cluster already")
        for record in records:
            self._queue.put_nowait(record)

    async def run(self) -> None:
        """Send what is queued, until it is cancelled."""
        while True:
            records = [await self._queue.get()]
            while not self._queue.empty() and len(records) < BATCH_RECORDS:
                records.append(self._queue.get_nowait())
            try:
                await self._send(records)
            finally:
                for _ in records:
                    self._queue.task_done()

    async def _send(self, records: list[Record]) -> None:
        lost: Counter[bytes] = Counter()
        error: BaseException | None = None
        deliveries: list[tuple[Record, Delivery]] = []
        for record in records:
            try:
                delivery = await self._producer.send(
                    EVENT_TOPIC, record.value, key=record.key, partition=0, timestamp_ms=record.timestamp_ms
                )
                deliveries.append((record, delivery))
            except KafkaError as refused:
                error = refused
                lost[record.key or b""] += 1
        for record, delivery in deliveries:
            try:
                await delivery
            except KafkaError as refused:
                error = refused
                lost[record.key or b""] += 1
        if not lost:
            return
        log.warning("%d events of %d groups were not written: %s", lost.total(), len(lost), error)
        at_ms = records[-1].timestamp_ms
        for key, count in lost.items():
            if not self._queue.full():
                fields = lost_fields(key.decode("utf-8", "replace"), count, at_ms)
                self._queue.put_nowait(Record(0, at_ms, key, json.dumps(fields).encode()))
        await asyncio.sleep(AGAIN_SECONDS)

    async def stop(self, seconds: float, *, is_running: bool) -> None:
        """Wait until `run` has written all that was queued, at most so long, and stop the producer."""
        try:
            if is_running:
                await asyncio.wait_for(self._queue.join(), seconds)
                await self._producer.flush()
        except TimeoutError:
            log.warning("%d events of groups were not written", self._queue.qsize())
        await self._producer.stop()


class RebalanceCounts(RebalanceCounter):
    """Counters of rebalances in front of a store, to which each batch is passed."""

    def __init__(self, store: EventStore) -> None:
        super().__init__()
        self._store = store
        self.names_wait_ms = store.names_wait_ms

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return what the store knows."""
        return self._store.topic_name(topic_id)

    def note(self, fields: Mapping[str, Any], now_ms: int) -> None:
        """Store an event of the gateway itself, which names no group. Raises StorageError or KafkaError."""
        value = json.dumps({"at_ms": now_ms, **fields}, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self._store.append([Record(0, now_ms, None, value)], now_ms)

    def append(self, records: list[Record], now_ms: int) -> None:
        """Count what a batch shows, and store it. Raises StorageError or KafkaError."""
        for record in records:
            if record.value is not None:
                self.count(json.loads(bytes(record.value)))
        self._store.append(records, now_ms)
