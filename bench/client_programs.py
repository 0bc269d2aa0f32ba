"""Writes or reads many records by one client library, and prints how long that took, by wall and by its CPU.

    python -m bench.client_programs produce|consume LIBRARY BOOTSTRAP TOPIC SIZE RECORDS

Producers are idempotent, acks=all, 5 ms of linger, batches of at most 64 KiB. Consumers read all partitions from their
beginning, without a group, and touch each value. Connecting is not counted, the first fetch is.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

PARTITIONS = 6
LINGER_MS, BATCH_BYTES = 5, 65_536
AT_ONCE = 500
"""Records that a consumer is asked for at once, where the library has no default."""


@dataclass(slots=True)
class Load:
    """What is to be done, and how long it took."""

    bootstrap: str
    topic: str
    size: int
    records: int
    took: dict[str, float] = field(default_factory=dict)

    @property
    def value(self) -> bytes:
        """The value of each record."""
        return b"x" * self.size

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the block, by wall and by the CPU of all threads."""
        began = time.perf_counter(), time.process_time()
        yield
        self.took = {"wall_s": time.perf_counter() - began[0], "cpu_s": time.process_time() - began[1]}


async def _produce_by_kohort(load: Load) -> None:
    from kohort import Producer

    value = load.value
    producer = Producer(load.bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES)  # idempotent by default
    async with producer:
        await producer.partitions_for(load.topic)
        with load.measured():
            for _ in range(load.records):
                await producer.send(load.topic, value)
            await producer.flush()


async def _consume_by_kohort(load: Load) -> None:
    from kohort import Consumer, TopicPartition

    left = load.records * load.size
    async with Consumer(bootstrap_servers=load.bootstrap, auto_offset_reset="earliest") as consumer:
        with load.measured():
            consumer.assign([TopicPartition(load.topic, each) for each in range(PARTITIONS)])
            while left:
                for batch in await consumer.poll(1_000):
                    for record in batch:
                        left -= len(record.value or b"")


async def _produce_by_aiokafka(load: Load) -> None:
    from aiokafka import AIOKafkaProducer

    value = load.value
    producer = AIOKafkaProducer(
        bootstrap_servers=load.bootstrap, linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES, enable_idempotence=True
    )
    await producer.start()
    await producer.partitions_for(load.topic)
    with load.measured():
        for _ in range(load.records):
            await producer.send(load.topic, value)
        await producer.flush()
    await producer.stop()


async def _consume_by_aiokafka(load: Load) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    left = load.records * load.size
    consumer = AIOKafkaConsumer(bootstrap_servers=load.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    with load.measured():
        consumer.assign([TopicPartition(load.topic, each) for each in range(PARTITIONS)])
        while left:
            for records in (await consumer.getmany(timeout_ms=1_000)).values():
                for record in records:
                    left -= len(record.value)
    await consumer.stop()


async def _produce_by_kafka_python(load: Load) -> None:
    from kafka import KafkaProducer

    value = load.value
    producer = KafkaProducer(
        bootstrap_servers=load.bootstrap,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        enable_idempotence=True,
        acks="all",
        max_in_flight_requests_per_connection=5,
    )
    producer.partitions_for(load.topic)
    with load.measured():
        for _ in range(load.records):
            producer.send(load.topic, value)
        producer.flush()
    producer.close()


async def _consume_by_kafka_python(load: Load) -> None:
    from kafka import KafkaConsumer, TopicPartition

    left = load.records * load.size
    consumer = KafkaConsumer(bootstrap_servers=load.bootstrap, auto_offset_reset="earliest", group_id=None)
    with load.measured():
        consumer.assign([TopicPartition(load.topic, each) for each in range(PARTITIONS)])
        while left:
            for records in consumer.poll(1_000).values():
                for record in records:
                    left -= len(record.value)
    consumer.close()


def _librdkafka(load: Load, *, is_producer: bool) -> dict[str, str | int | bool]:
    if is_producer:
        own: dict[str, str | int | bool] = {
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "enable.idempotence": True,
            "acks": "all",
        }
    else:
        own = {"group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return {"bootstrap.servers": load.bootstrap, **own}


async def _produce_by_confluent_kafka(load: Load) -> None:
    from confluent_kafka import Producer

    value = load.value
    producer = Producer(_librdkafka(load, is_producer=True))
    producer.list_topics(load.topic, 10)
    with load.measured():
        for _ in range(load.records):
            while True:
                try:
                    producer.produce(load.topic, value)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.flush()


async def _consume_by_confluent_kafka(load: Load) -> None:
    from confluent_kafka import Consumer, TopicPartition

    left = load.records * load.size
    consumer = Consumer(_librdkafka(load, is_producer=False))
    consumer.list_topics(load.topic, 10)
    with load.measured():
        consumer.assign([TopicPartition(load.topic, each, 0) for each in range(PARTITIONS)])
        while left:
            for message in consumer.consume(AT_ONCE, 1):
                left -= len(message.value() or b"")
    consumer.close()


async def _produce_by_confluent_kafka_aio(load: Load) -> None:
    from confluent_kafka.aio import AIOProducer

    value = load.value
    producer = AIOProducer(_librdkafka(load, is_producer=True))
    await producer.list_topics(load.topic, 10)
    with load.measured():
        for _ in range(load.records):
            await producer.produce(load.topic, value)
        await producer.flush()
    await producer.close()


async def _consume_by_confluent_kafka_aio(load: Load) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.aio import AIOConsumer

    left = load.records * load.size
    consumer = AIOConsumer(_librdkafka(load, is_producer=False))
    await consumer.list_topics(load.topic, 10)
    with load.measured():
        await consumer.assign([TopicPartition(load.topic, each, 0) for each in range(PARTITIONS)])
        while left:
            for message in await consumer.consume(AT_ONCE, 1):
                left -= len(message.value() or b"")
    await consumer.close()


Program = Callable[[Load], Awaitable[None]]

PROGRAMS: dict[str, dict[str, Program]] = {
    "kohort": {"produce": _produce_by_kohort, "consume": _consume_by_kohort},
    "aiokafka": {"produce": _produce_by_aiokafka, "consume": _consume_by_aiokafka},
    "kafka-python": {"produce": _produce_by_kafka_python, "consume": _consume_by_kafka_python},
    "confluent-kafka": {"produce": _produce_by_confluent_kafka, "consume": _consume_by_confluent_kafka},
    "confluent-kafka, AIO": {
        "produce": _produce_by_confluent_kafka_aio,
        "consume": _consume_by_confluent_kafka_aio,
    },
}


def main() -> None:
    """Do what the command line asks for."""
    what, library, bootstrap, topic, size, records = sys.argv[1:]
    load = Load(bootstrap, topic, int(size), int(records))

    async def run() -> None:
        await PROGRAMS[library][what](load)

    asyncio.run(run())
    print(json.dumps(load.took))


if __name__ == "__main__":
    main()
