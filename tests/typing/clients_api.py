"""What type checkers make of the settings and the public names; read by `test_public_api`, never run."""

from __future__ import annotations

import json
import ssl
from typing import Any, assert_type

from kohort import (
    Admin,
    Batch,
    BrokerUnreachable,
    Consumer,
    ConsumerSettings,
    CorruptBatch,
    DeserializationFailed,
    ErrorCode,
    KafkaError,
    PartitionErrors,
    Producer,
    Record,
    RecordMetadata,
    Sasl,
    TopicPartition,
    sync,
)
from kohort.testing import EmbeddedBroker


class Order:
    def __init__(self, text: bytes) -> None:
        self.text = text

    def encode(self) -> bytes:
        return self.text


async def settings() -> None:
    async with Consumer(
        "orders",
        bootstrap_servers=["h:1", "h:2"],
        group_id="g",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        key_deserializer=bytes.decode,
        value_deserializer=json.loads,
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="ann",
        sasl_password="secret",
        ssl_ca_location="ca.pem",
    ) as consumer:
        for batch in await consumer.poll(timeout_ms=1000):
            assert_type(batch.partition, TopicPartition)
            for record in batch:
                assert_type(record, Record[str, Any])
    async with Producer[str, object](
        "h:1",
        acks="all",
        compression_type="zstd",
        key_serializer=str.encode,
        value_serializer=lambda value: json.dumps(value).encode(),
    ) as producer:
        delivery = await producer.send("orders", {"id": 1}, key="k", headers={"trace": b"7"})
        assert_type(await delivery, RecordMetadata)
    async with Admin("h:1", tls=ssl.create_default_context(), sasl=Sasl("PLAIN", "ann", "secret")) as admin:
        await admin.create_topic("orders", partitions=3)


def blocking() -> None:
    with (
        EmbeddedBroker(num_partitions=3) as broker,
        sync.Producer(broker.bootstrap_servers, acks=1, value_serializer=str.encode) as producer,
    ):
        assert_type(producer.send("orders", "text").result(), RecordMetadata)


async def keys_and_values(consumer: Consumer, settings: ConsumerSettings) -> None:
    assert_type(Consumer("t", bootstrap_servers="h:1"), Consumer[bytes | None, bytes | None])
    assert_type(Consumer("t", **settings), Consumer[bytes | None, bytes | None])
    assert_type(sync.Consumer("t", **settings), sync.Consumer[bytes | None, bytes | None])
    async for record in consumer:
        assert_type(record, Record[bytes | None, bytes | None])
        assert_type(record.topic, str)
        assert_type(record.partition, int)
        assert_type(record.topic_partition, TopicPartition)
        assert_type(record.value, bytes | None)
    async with Consumer("t", **settings, key_deserializer=int, value_deserializer=Order) as orders:
        assert_type(orders, Consumer[int, Order])
        assert_type(await anext(orders), Record[int, Order])
        assert_type((await anext(orders)).value, Order | None)
        assert_type(await orders.poll(), list[Batch[int, Order]])
    with sync.Consumer("t", **settings, value_deserializer=Order) as orders_in_turn:
        assert_type(orders_in_turn, sync.Consumer[bytes | None, Order])
        assert_type(next(orders_in_turn).value, Order | None)
        assert_type(orders_in_turn.poll(), list[Batch[bytes | None, Order]])
        for order in orders_in_turn:
            assert_type(order, Record[bytes | None, Order])
    assert_type(Producer("h:1"), Producer[bytes | None, bytes | None])
    assert_type(Producer("h:1", value_serializer=Order.encode), Producer[bytes | None, Order])
    assert_type(sync.Producer("h:1", key_serializer=str.encode), sync.Producer[str, bytes | None])


def refused(plain: sync.Producer, orders: sync.Producer[bytes | None, Order], record: Record) -> None:
    plain.send("t", "text")  # type: ignore[arg-type]
    plain.send("t", b"", key="text")  # type: ignore[arg-type]
    orders.send("t", b"bytes")  # type: ignore[arg-type]
    orders.send_and_wait("t", None)
    len(record.value)  # type: ignore[arg-type]
    Consumer("t", bootstrap_servers="h:1", isolation_level="snapshot")  # type: ignore[arg-type]
    Consumer("t", bootstrap_servers="h:1", security_protocol="TLS")  # type: ignore[arg-type]
    Consumer("t", bootstrap_servers="h:1", sasl_plain_username="ann")  # type: ignore[call-arg]
    Producer("h:1", acks=2)  # type: ignore[arg-type]
    Producer("h:1", compression_type="zip")  # type: ignore[arg-type]
    Admin("h:1", group_id="g")  # type: ignore[call-arg]


def errors(error: KafkaError) -> str:
    match error:
        case BrokerUnreachable():
            return "; ".join(why for _, why in error.attempts)
        case CorruptBatch() | DeserializationFailed():
            return f"{error.partition} {error.offset}"
        case PartitionErrors():
            return ", ".join(code.name for code in error.codes.values())
        case _:
            assert_type(error.code, ErrorCode)
            return error.text
