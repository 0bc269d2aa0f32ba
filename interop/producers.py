"""Producing keyed text with each client library, and the delivery reports it gave."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from interop.group import Pair, Position, keyed

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Written = dict[Position, Pair]


class LongProducer:
    """An idempotent librdkafka producer that outlives one call, and the delivery reports of its records."""

    def __init__(
        self, bootstrap: str, topic: str, codec: str = "none", *, idempotent: bool = True, in_flight: int = 5
    ) -> None:
        from confluent_kafka import Producer

        self.topic = topic
        self.written: Written = {}
        self.failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.codec": codec,
                "enable.idempotence": idempotent,
                "max.in.flight": in_flight,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": 60000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 2,
            }
        )

    def send(self, pairs: Sequence[Pair]) -> None:
        """Hand records over; they are on their way when this returns."""
        for key, value in pairs:
            while True:
                try:
                    self._producer.produce(self.topic, value.encode(), key.encode(), on_delivery=self._delivered)
                    break
                except BufferError:  # its queue is full
                    self._producer.poll(0.1)
            self._producer.poll(0)

    def flush(self) -> None:
        """Wait until every record was acknowledged."""
        left = self._producer.flush(60)
        assert not left, f"{left} records undelivered"
        assert not self.failed, self.failed[0]

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None or message.offset() is None:
            self.failed.append(str(error or "acknowledged without an offset"))
            return
        place = (message.partition(), message.offset())
        assert place not in self.written, f"two records were given the offset {place}"
        self.written[place] = (message.key().decode(), message.value().decode())


def _librdkafka(bootstrap: str, topic: str, pairs: Sequence[Pair], codec: str, idempotent: bool) -> Written:
    producer = LongProducer(bootstrap, topic, codec, idempotent=idempotent)
    producer.send(pairs)
    producer.flush()
    return producer.written


def _kafka_python(bootstrap: str, topic: str, pairs: Sequence[Pair], codec: str, idempotent: bool) -> Written:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        acks="all",
        linger_ms=5,
        max_block_ms=20000,
    )
    try:
        sent = [(producer.send(topic, value.encode(), key.encode()), (key, value)) for key, value in pairs]
        producer.flush(30)
        written: Written = {}
        for future, pair in sent:
            place = future.get(10)
            written[place.partition, place.offset] = pair
        return written
    finally:
        producer.close(timeout=10)


def _aiokafka(bootstrap: str, topic: str, pairs: Sequence[Pair], codec: str, idempotent: bool) -> Written:
    from aiokafka import AIOKafkaProducer

    async def run() -> Written:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=5,
        )
        await producer.start()
        try:
            sent = [(await producer.send(topic, value.encode(), key.encode()), (key, value)) for key, value in pairs]
            written: Written = {}
            for future, pair in sent:
                place = await asyncio.wait_for(future, 20)
                written[place.partition, place.offset] = pair
            return written
        finally:
            await producer.stop()

    return asyncio.run(run())


def _kohort(bootstrap: str, topic: str, pairs: Sequence[Pair], codec: str, idempotent: bool) -> Written:
    from kohort import Producer
    from kohort.wire.compression import Compression

    async def run() -> Written:
        compression = Compression[codec.upper()]
        async with Producer(bootstrap, compression_type=compression, enable_idempotence=idempotent) as producer:
            sent = [(await producer.send(topic, value.encode(), key.encode()), (key, value)) for key, value in pairs]
            written: Written = {}
            for delivery, pair in sent:
                place = await asyncio.wait_for(delivery, 20)
                written[place.partition, place.offset] = pair
            return written

    return asyncio.run(run())


_BY_LIBRARY = {"librdkafka": _librdkafka, "kafka_python": _kafka_python, "aiokafka": _aiokafka, "kohort": _kohort}


def produce(
    library: str, bootstrap: str, topic: str, pairs: Sequence[Pair], *, codec: str = "none", idempotent: bool = True
) -> Written:
    """Send pairs with one library and return where the broker put each, by the library's delivery reports."""
    written = _BY_LIBRARY[library](bootstrap, topic, pairs, codec, idempotent)
    assert len(written) == len(pairs), "two records were given the same offset"
    return written


class Load:
    """Records written all the time by a thread of its own; a context manager that ends when all are acknowledged."""

    def __init__(self, bootstrap: str, topic: str, *, keys: int = 40, pause_s: float = 0.2) -> None:
        # One request at a time: with several on their way to a fresh partition of Apache Kafka, records have been
        # acknowledged without an offset, as repetitions are, that are nowhere in the log.
        self._producer = LongProducer(bootstrap, topic, in_flight=1)
        self._keys = keys
        self._pause_s = pause_s
        self._is_over = threading.Event()
        self._written_s: list[float] = []
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def _run(self) -> None:
        sent = 0
        while not self._is_over.wait(self._pause_s):
            self._producer.send(keyed(self._keys, self._keys, sent))
            sent += self._keys
            self._written_s.append(time.monotonic())

    def longest_gap_s(self, start_s: float) -> float:
        """Return the longest time since then in which it wrote nothing, as it may where the machine is busy."""
        times = [start_s, *(at_s for at_s in self._written_s if at_s > start_s), time.monotonic()]
        return max(after - before for before, after in itertools.pairwise(times))

    def stop(self) -> Written:
        """Write no more, and return what was written when all of it is acknowledged."""
        self._is_over.set()
        self._thread.join()
        self._producer.flush()
        return self._producer.written

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
