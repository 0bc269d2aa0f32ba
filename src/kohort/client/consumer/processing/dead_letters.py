"""Writes records that failed to other topics, by a producer that is connected when the first one fails."""

from __future__ import annotations

import asyncio
from dataclasses import fields

from kohort.client.cluster.retry import Waits, retry
from kohort.client.consumer.processing.copies import CopyTransactions, OutputRecord
from kohort.client.consumer.processing.retry_topic import headers_of
from kohort.client.consumer.processing.schedule import WorkItem
from kohort.client.producer.producer import Producer
from kohort.client.settings import ClientConfig
from kohort.model.errors import KafkaError

_CONNECTING_MS = 120_000
"""How long brokers that cannot be reached are waited for: as long as a record is tried afterwards."""


def dead_letter_headers(item: WorkItem, error: Exception, group: str) -> list[tuple[str, bytes | None]]:
    """Return a record's own headers, and where it came from and why it failed, by Kafka Connect's names."""
    why = {
        "__connect.errors.topic": item.record.topic,
        "__connect.errors.partition": item.record.partition,
        "__connect.errors.offset": item.record.offset,
        "__connect.errors.connector.name": group,
        "__connect.errors.exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
        "__connect.errors.exception.message": str(error),
        "kohort.error.attempts": item.attempts,
    }
    return [*item.record.headers, *((name, str(value).encode(errors="replace")) for name, value in why.items())]


class FailedRecordWriter:
    """The dead letters and parked records of one consumer, sent as the client that it is, or with its `copies`."""

    def __init__(self, config: ClientConfig, group: str, copies: CopyTransactions | None) -> None:
        self._config = config
        self._copies = copies
        self._group = group
        self._starting = asyncio.Lock()
        self._producer: Producer | None = None

    async def send_letter(self, topic: str, item: WorkItem, error: Exception) -> None:
        """Write a dead letter. Raises as `_send` does."""
        await self._send("dead-letter", topic, item, dead_letter_headers(item, error, self._group))

    async def park(self, topic: str, item: WorkItem, due_ms: int) -> None:
        """Write a record that waits until it is due. Raises as `_send` does."""
        await self._send("retry", topic, item, headers_of(item, due_ms))

    async def _send(self, kind: str, topic: str, item: WorkItem, headers: list[tuple[str, bytes | None]]) -> None:
        """Write a record, with its bytes and time as they came. Raises `KafkaError` with a sentence for the program."""
        record = item.record
        if self._copies is not None:
            output = OutputRecord(topic, record.value, record.key, None, max(0, record.timestamp_ms), tuple(headers))
            self._copies.add(item.work, [output])
            return
        try:
            producer = await self._started()
            await producer.send_and_wait(
                topic,
                record.value,
                record.key,
                timestamp_ms=max(0, record.timestamp_ms),
                headers=headers,
            )
        except KafkaError as refused:
            text = (
                f"the {kind} topic {topic} cannot be written: {refused.text}. The record at offset {item.offset} of"
                f" {item.work.partition} stays unfinished: create the topic, or allow this client to write it, and"
                " start again"
            )
            raise KafkaError(refused.code, text) from refused

    async def stop(self) -> None:
        """Disconnect. Each `send` waits for the answer, so nothing is lost."""
        if self._producer is not None:
            await self._producer.stop(timeout_ms=0)

    async def _started(self) -> Producer:
        async with self._starting:
            if self._producer is None:
                own = {each.name: getattr(self._config, each.name) for each in fields(ClientConfig)}
                producer = Producer(**own, allow_auto_create_topics=False)
                await retry(producer.start, waits=Waits(self._config.random), timeout_ms=_CONNECTING_MS)
                self._producer = producer
            return self._producer
