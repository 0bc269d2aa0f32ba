"""One reader of ranges for many readings: its connections, and topics that are made anew between two readings."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.integration.scenario_book import create, produce

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin
from kohort.client.arguments import bootstrap_addresses
from kohort.client.consumer.range_reader import RangeReader
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.wire.record_batches import decode_batch, iter_batches

ONLY = TopicPartition("t", 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "kohort") as broker:
        asyncio.run(fill(broker.bootstrap_servers))
        yield broker


@pytest.fixture
def reader(broker: EmbeddedBroker) -> Iterator[RangeReader]:
    with closing(RangeReader(bootstrap_addresses(broker.bootstrap_servers), max_bytes=1024)) as reader:
        yield reader


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The addresses to which blocking connections were opened."""
    opened: list[Any] = []
    connect = socket.create_connection

    def counted(address: Any, *rest: Any) -> socket.socket:
        opened.append(address)
        return connect(address, *rest)

    monkeypatch.setattr(socket, "create_connection", counted)
    return opened


async def fill(bootstrap: str) -> None:
    await create(bootstrap, "t", 1)
    for _ in range(4):  # batches of their own
        await produce(bootstrap, "t", 25)


def offsets(reader: RangeReader, start: int, stop: int, topic_ids: dict[str, str] | None = None) -> list[int]:
    found = reader.read([(ONLY, start, stop)], topic_ids)
    views = (view for _, records, _ in found for _, view in iter_batches(records))
    return [record.offset for view in views for record in decode_batch(view) if start <= record.offset < stop]


def test_readings_one_after_another_use_the_same_connections(reader: RangeReader, opened: list[Any]) -> None:
    assert offsets(reader, 0, 50) == list(range(50))
    before = list(opened)
    assert offsets(reader, 50, 100) == list(range(50, 100))
    assert opened == before


def test_a_connection_that_its_broker_has_closed_is_opened_again(reader: RangeReader, broker: EmbeddedBroker) -> None:
    assert offsets(reader, 0, 50) == list(range(50))
    broker.kill()
    broker.start()
    assert offsets(reader, 50, 100) == list(range(50, 100))


def test_a_reading_that_was_left_early_leaves_nothing_for_the_next(reader: RangeReader) -> None:
    with closing(reader.read([(ONLY, 0, 100)])) as left:
        next(left)
    assert offsets(reader, 75, 100) == list(range(75, 100))


def test_a_topic_that_was_made_anew_is_not_read_in_the_place_of_the_old_one(
    reader: RangeReader, broker: EmbeddedBroker
) -> None:
    async def topic_id() -> str:
        async with Admin(broker.bootstrap_servers) as admin:
            return topic_id_text((await admin.describe_topics(["t"]))["t"].topic_id)

    async def made_anew() -> None:
        async with Admin(broker.bootstrap_servers) as admin:
            await admin.delete_topic("t")
        await fill(broker.bootstrap_servers)

    old = {"t": asyncio.run(topic_id())}
    assert offsets(reader, 0, 50, old) == list(range(50))
    asyncio.run(made_anew())
    with pytest.raises(KafkaError, match="deleted and created again") as refused:
        offsets(reader, 50, 100, old)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID
    assert offsets(reader, 0, 50, {"t": asyncio.run(topic_id())}) == list(range(50))
