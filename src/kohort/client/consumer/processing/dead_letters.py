"""Writes records that failed to dead-letter topics, by a producer that is connected when the first one fails."""

from __future__ import annotations

import asyncio
from dataclasses import fields

from kohort.client.consumer.processing.schedule import WorkItem
from kohort.client.producer.producer import Producer
from kohort.client.settings import ClientConfig
from kohort.model.errors import KafkaError


def dead_letter_headers(item: WorkItem, error: Exception, group: str) -> list[tuple[str, bytes | None]]:
    """Return a record's own headers, and where it came from and why it failed, by Kafka Connect's names."""
    partition = item.work.partition
    why = {
        "__connect.errors.topic": partition.topic,
        "__connect.errors.partition": partition.partition,
        "__connect.errors.offset": item.record.offset,
        "__connect.errors.connector.name": group,
        "__connect.errors.exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
        "__connect.errors.exception.message": str(error),
        "kohort.error.attempts": item.attempts,
    }
    return [*item.record.headers, *((name, str(value).encode(errors="replace")) for name, value in why.items())]


class DeadLetterWriter:
    """The dead letters of one consumer, sent as the client that it is."""

    def __init__(self, config: ClientConfig, group: str) -> None:
        self._config = config
        self._group = group
        self._starting = asyncio.Lock()
        self._producer: Producer | None = None

    async def send(self, topic: str, item: WorkItem, error: Exception) -> None:
        """Write a record, with its bytes and time as they came. Raises `KafkaError` with a sentence for the program."""
        try:
            producer = await self._started()
            record = item.record
            await producer.send_and_wait(
                topic,
                record.value,
                record.key,
                timestamp_ms=max(0, record.timestamp_ms),
                headers=dead_letter_headers(item, error, self._group),
            )
        except KafkaError as refused:
            text = (
                f"the dead-letter topic {topic} cannot be written: {refused.text}. The record at offset"
                f" {item.record.offset} of {item.work.partition} stays unfinished: create the topic, or allow this"
                " client to write it, and start again"
            )
            raise KafkaError(refused.code, text) from error

    async def stop(self) -> None:
        """Disconnect. Each `send` waits for the answer, so nothing is lost."""
        if self._producer is not None:
            await self._producer.stop(timeout_ms=0)

    async def _started(self) -> Producer:
        async with self._starting:
            if self._producer is None:
                own = {each.name: getattr(self._config, each.name) for each in fields(ClientConfig)}
                producer = Producer(**own, allow_auto_create_topics=False)
                await producer.start()
                self._producer = producer
            return self._producer
