"""Functions that make keys and values: one that raises costs no record, and a null stays a null."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.scenario_book import PATIENCE_MS

from kohort import Consumer, ConsumerSettings, DeserializationFailed, Producer, Record, TopicPartition, sync
from kohort.testing import EmbeddedBroker, SchemaRegistry

ONLY = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as found:
        yield found


async def write(broker: EmbeddedBroker, *values: bytes | None) -> None:
    async with Producer(broker.bootstrap_servers) as producer:
        for at, value in enumerate(values):
            await producer.send("t", value, key=b"%d" % at if at % 2 else None)


def reader(broker: EmbeddedBroker, **settings: Any) -> Consumer:
    found = {"value_deserializer": json.loads, "bootstrap_servers": broker.bootstrap_servers} | settings
    return Consumer("t", group_id="g", auto_offset_reset="earliest", **found)


async def take(consumer: Consumer, count: int) -> list[Record]:
    records: list[Record] = []
    while len(records) < count:
        records += [record for batch in await consumer.poll(PATIENCE_MS) for record in batch]
    return records


def test_keys_and_values_are_what_the_functions_made_of_their_bytes_and_a_null_is_none(broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        await write(broker, b'{"id": 1}', None, b"3")
        async with reader(broker, key_deserializer=int) as consumer:
            records = await take(consumer, 3)
        assert [(record.key, record.value) for record in records] == [(None, {"id": 1}), (1, None), (None, 3)]

    asyncio.run(scenario())


@pytest.mark.parametrize("max_poll_records", [500, 2])
def test_each_poll_raises_at_a_record_that_no_value_can_be_made_of_until_the_program_seeks_past_it(
    broker: EmbeddedBroker, max_poll_records: int
) -> None:
    async def scenario() -> None:
        await write(broker, b"0", b"1", b"2", b"{", b"4")
        async with reader(broker, max_poll_records=max_poll_records) as consumer:
            assert [record.value for record in await take(consumer, 3)] == [0, 1, 2], "those before it come first"
            for _ in range(3):
                with pytest.raises(DeserializationFailed, match="value_deserializer raised JSONDecodeError") as failed:
                    await consumer.poll(PATIENCE_MS)
                assert (failed.value.partition, failed.value.offset) == (ONLY, 3)
                assert isinstance(failed.value.__cause__, json.JSONDecodeError)
                assert await consumer.position(ONLY) == 3
            await consumer.commit()
            assert (await consumer.committed([ONLY]))[ONLY].offset == 3
            consumer.seek(ONLY, failed.value.next_offset)
            assert [record.value for record in await take(consumer, 1)] == [4]

    asyncio.run(scenario())


def test_a_member_that_starts_again_begins_at_the_record_and_reads_it_with_a_function_that_can(
    broker: EmbeddedBroker,
) -> None:
    async def read_for_ever() -> None:
        async with reader(broker) as consumer:
            while True:
                await consumer.poll(PATIENCE_MS)

    async def scenario() -> None:
        await write(broker, b"0", b"{", b"2")
        with pytest.raises(DeserializationFailed):
            await read_for_ever()
        async with reader(broker, value_deserializer=bytes.decode) as consumer:
            assert [record.value for record in await take(consumer, 2)] == ["{", "2"]

    asyncio.run(scenario())


def test_seeking_to_the_record_itself_tries_it_again(broker: EmbeddedBroker) -> None:
    registry: dict[bytes, str] = {b"a": "A"}

    async def scenario() -> None:
        await write(broker, b"a", b"b")
        async with reader(broker, value_deserializer=registry.__getitem__) as consumer:
            assert [record.value for record in await take(consumer, 1)] == ["A"]
            with pytest.raises(DeserializationFailed) as failed:
                await consumer.poll(PATIENCE_MS)
            registry[b"b"] = "B"
            consumer.seek(ONLY, failed.value.offset)
            assert [record.value for record in await take(consumer, 1)] == ["B"]

    asyncio.run(scenario())


def test_the_blocking_consumer_takes_them_too(broker: EmbeddedBroker) -> None:
    with sync.Producer(broker.bootstrap_servers, value_serializer=lambda value: json.dumps(value).encode()) as producer:
        producer.send("t", [1, 2]).result()
    with sync.Consumer(
        "t", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", value_deserializer=json.loads
    ) as consumer:
        assert next(consumer).value == [1, 2]


def test_a_schema_is_requested_beside_the_event_loop_and_once(broker: EmbeddedBroker) -> None:
    pytest.importorskip("urllib3")
    from kohort.schemas import Schemas

    async def scenario(registry: SchemaRegistry) -> None:
        serializer = Schemas(registry.url).serializer("t", '{"type": "string"}')
        await write(broker, *map(serializer, "abc"))
        del registry.requests[:]
        registry.failing = 503
        schemas = Schemas({"url": registry.url, "retry.ms": "1"})
        async with reader(broker, value_deserializer=schemas.deserializer()) as consumer:
            with pytest.raises(DeserializationFailed, match="the schema registry cannot be read"):
                await take(consumer, 1)
            registry.failing = None
            consumer.seek(ONLY, 0)
            assert [record.value for record in await take(consumer, 3)] == ["a", "b", "c"]
        assert registry.requests == ["/schemas/ids/1"] * 2
        seen: list[str | None] = []
        is_done = asyncio.Event()

        async def handle(record: Record[Any, str]) -> None:
            seen.append(record.value)
            if len(seen) == 3:
                is_done.set()

        fresh = Schemas({"url": registry.url, "retry.ms": "2"}).deserializer()
        settings: ConsumerSettings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
        async with Consumer("t", group_id="h", **settings, value_deserializer=fresh) as consumer:
            processing = asyncio.create_task(consumer.process(handle))
            await is_done.wait()
        await processing
        assert sorted(map(str, seen)) == ["a", "b", "c"]

    with SchemaRegistry() as registry:
        asyncio.run(scenario(registry))
