"""The producer: records in, batches out, and where each record was written.

`send` returns as soon as the record is in a batch; awaiting what it returned waits for the broker. With idempotence,
the default, a record is written once and in order however often the connection breaks (KIP-98).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Unpack

from kohort.client.arguments import check_text, check_topic, of_type, whole_number
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import TopicView
from kohort.client.errors import ClientStopped, UnknownPartition
from kohort.client.producer.accumulator import Delivery, RecordMetadata, record_size
from kohort.client.producer.partitioner import Sticky, partition_for_key
from kohort.client.producer.sender import Sender, SenderConfig
from kohort.client.settings import SecuritySettings, understood
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.net.environment import random as random_number
from kohort.net.environment import wall_clock
from kohort.net.sasl import Sasl
from kohort.wire.compression import Compression, compress
from kohort.wire.record_batches import Record

Headers = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]

Acks = Literal["all", "-1", "1", "0", -1, 1, 0]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_ACKS = {"all": -1, -1: -1, "-1": -1, 0: 0, "0": 0, 1: 1, "1": 1}


class ProducerSettings(SecuritySettings, total=False):
    """Settings of security, and old names."""

    compression: CompressionType | Compression | None
    max_in_flight: int


class Producer:
    """Writes records to topics of one cluster.

    Times are milliseconds, sizes bytes. `acks` is "all", 1 or 0. `enable_idempotence` is on by default where acks is
    "all", and needs that. `compression_type` is "gzip", "snappy", "lz4", "zstd" or None. `buffer_memory` bounds what
    waits to be written: beyond it `send` waits, at most `max_block_ms`. `partitioner(key, partitions)` replaces Java's
    choice for records with a key. `key_serializer` and `value_serializer` make bytes of what `send` is given, except of
    None, which stays a null. `more` are `security_protocol`, `sasl_…` and `ssl_…` with Kafka's names. Raises
    TypeError for a setting that does not exist, ValueError for settings that do not go together, and
    CompressionUnavailable.
    """

    @understood(ProducerSettings)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = "kohort",
        acks: Acks = "all",
        enable_idempotence: bool | None = None,
        linger_ms: float = 5,
        batch_size: int = 65_536,
        compression_type: CompressionType | Compression | None = None,
        max_request_size: int = 1_048_576,
        buffer_memory: int = 33_554_432,
        max_block_ms: int = 60_000,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        max_in_flight_requests_per_connection: int = 5,
        partitioner: Callable[[bytes, int], int] = partition_for_key,
        allow_auto_create_topics: bool = True,
        tls: ssl.SSLContext | None = None,
        sasl: Sasl | None = None,
        key_serializer: Callable[[Any], bytes | None] | None = None,
        value_serializer: Callable[[Any], bytes | None] | None = None,
        random: Callable[[], float] = random_number,
        **more: Unpack[ProducerSettings],
    ) -> None:
        del more  # They have become `tls` and `sasl`.
        if acks not in _ACKS:
            raise ValueError(f"acks={acks!r} is not 'all', 1 or 0")
        is_idempotent = _ACKS[acks] == -1 if enable_idempotence is None else enable_idempotence
        if is_idempotent and _ACKS[acks] != -1:
            raise ValueError(f"enable_idempotence needs acks='all', not {acks!r}: drop one of the two")
        if is_idempotent and max_in_flight_requests_per_connection > 5:
            raise ValueError("enable_idempotence allows max_in_flight_requests_per_connection of 1 to 5")
        if delivery_timeout_ms < linger_ms + request_timeout_ms:
            raise ValueError("delivery_timeout_ms must be at least linger_ms + request_timeout_ms")
        codec = _compression(compression_type)
        compress(codec, b"")
        self._cluster = Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            allow_auto_create_topics=allow_auto_create_topics,
            tls=tls,
            sasl=sasl,
            random=random,
        )
        self._config = SenderConfig(
            acks=_ACKS[acks],
            is_idempotent=is_idempotent,
            linger_s=linger_ms / 1000,
            batch_bytes=batch_size,
            max_request_bytes=max_request_size,
            compression=codec,
            delivery_timeout_s=delivery_timeout_ms / 1000,
            request_timeout_ms=request_timeout_ms,
            max_in_flight=max_in_flight_requests_per_connection,
        )
        self._max_block_s = max_block_ms / 1000
        self._room = buffer_memory
        self._buffer_memory = buffer_memory
        self._blocked: deque[asyncio.Future[None]] = deque()
        self._partitioner = partitioner
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._sticky = Sticky(batch_size, random)
        self._sender: Sender | None = None
        self._task: asyncio.Task[None] | None = None
        self._wall_ms = wall_clock()

    async def __aenter__(self) -> Producer:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Connect; a second time does nothing. Raises `BrokerUnreachable`, RuntimeError after `stop`."""
        await self._cluster.start()
        if self._sender is not None:
            return
        self._wall_ms = wall_clock()
        self._sender = Sender(self._cluster, self._config, self._release)
        self._task = asyncio.create_task(self._sender.run(), name="kohort sender")

    async def stop(self, *, timeout_ms: int | None = None) -> None:
        """Write what waits, for at most `timeout_ms` (the delivery timeout by default), and end everything.

        Each record that was not written by then fails with `ClientStopped`, and so does a `send` that still waits.
        """
        limit_s = self._config.delivery_timeout_s
        if timeout_ms is not None:
            limit_s = whole_number("timeout_ms", timeout_ms, 0) / 1000
        if self._sender is None or self._task is None:
            await self._cluster.close()
            return
        sender, task = self._sender, self._task
        try:
            async with asyncio.timeout(limit_s):
                await sender.drained()
        except TimeoutError:
            pass
        finally:
            self._sender = self._task = None
            task.cancel()
            sender.fail(ClientStopped("the record was written"))
            self._release(0)
            await asyncio.gather(task, return_exceptions=True)
            await sender.stop()
            await self._cluster.close()

    async def send(
        self,
        topic: str,
        value: object,
        key: object = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Put a record into a batch; await the `Delivery` returned for where it was written.

        Key and value are bytes or None, or what the serializers take. Without `partition` the key decides, without a
        key one partition is filled after another. `timestamp_ms` is now by default. Raises TypeError and ValueError
        that name the argument, `UnknownTopic`, `UnknownPartition`, MESSAGE_TOO_LARGE, REQUEST_TIMED_OUT where the
        buffer stayed full, `ClientStopped` where it waited while the producer was stopped.
        """
        sender = self._sender
        if sender is None:
            raise RuntimeError("the producer is not started: use 'async with Producer(…)' or await start()")
        if not isinstance(topic, str) or not topic:
            check_topic(topic)
        if partition is not None and type(partition) is not int:
            partition = whole_number("partition", partition, 0)
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        else:
            timestamp_ms = whole_number("timestamp_ms", timestamp_ms, 0, 2**63 - 1)
        record = Record(
            0,
            timestamp_ms,
            _serialized("key", key, self._key_serializer),
            _serialized("value", value, self._value_serializer),
            _checked(headers) if headers else (),
        )
        size = record_size(record)
        if size > self._config.max_request_bytes:
            text = f"a record of {size} bytes is larger than max_request_size={self._config.max_request_bytes}"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
        view = self._cluster.view.topics.get(topic)
        if view is None or not view.partitions:
            view = await self._cluster.topic(topic)
        chosen = self._choose(view, record.key, partition, size)
        if size > self._room:
            await self._wait_for_room(sender, size)
        batch, is_next = sender.append(chosen, record, size)
        self._room -= size
        delivery = Delivery(batch, len(batch.records) - 1, timestamp_ms)
        if is_next:
            # A batch just became full. A caller that sends in a tight loop must let the sender run.
            await asyncio.sleep(0)
        return delivery

    async def flush(self) -> None:
        """Wait until every record sent so far is written or has failed."""
        if self._sender is not None:
            await self._sender.drained()

    def _choose(self, view: TopicView, key: bytes | None, partition: int | None, size: int) -> TopicPartition:
        if partition is not None:
            chosen = TopicPartition(view.name, partition)
            if partition not in view.partitions:
                raise UnknownPartition(chosen, len(view.partitions))
            return chosen
        if key is not None:
            return TopicPartition(view.name, self._partitioner(key, len(view.partitions)))
        return TopicPartition(view.name, self._sticky.choose(view.name, view.partitions, size))

    async def _wait_for_room(self, sender: Sender, size: int) -> None:
        if size > self._buffer_memory:
            text = f"a record of {size} bytes does not fit into buffer_memory={self._buffer_memory}"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._max_block_s
        while size > self._room and self._sender is sender:
            waiter: asyncio.Future[None] = loop.create_future()
            self._blocked.append(waiter)
            try:
                async with asyncio.timeout_at(deadline_s):
                    await waiter
            except TimeoutError:
                text = (
                    f"buffer_memory={self._buffer_memory} stayed full for {self._max_block_s:g} s (max_block_ms):"
                    " the brokers cannot be reached, or take less than is sent"
                )
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None

    def _release(self, size: int) -> None:
        self._room += size
        while self._blocked:
            waiter = self._blocked.popleft()
            if not waiter.done():
                waiter.set_result(None)


def _serialized(name: str, given: object, serializer: Callable[[Any], bytes | None] | None) -> bytes | None:
    if given is None or (serializer is None and isinstance(given, bytes)):
        return given
    if serializer is None:
        kind = type(given).__name__
        raise TypeError(
            f"a record's {name} is bytes or None, not {kind}: encode it, or give the producer {name}_serializer"
        )
    made = serializer(given)
    if made is not None and not isinstance(made, bytes):
        raise TypeError(f"{name}_serializer returned {type(made).__name__}: expected bytes or None")
    return made


def _checked(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    """Return headers as a record has them. Raises TypeError, ValueError: one bad record must not fail its batch."""
    if not isinstance(headers, Iterable):
        raise of_type("headers", headers, "pairs of a str and bytes, or a dict")
    pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"headers holds {pair!r}: expected pairs of a str and bytes, or a dict")
        name, value = pair
        check_text("a header's name", name)
        if value is not None and not isinstance(value, bytes):
            raise TypeError(f"the value of header {name!r} is bytes or None, not {type(value).__name__}")
    return pairs


def _compression(name: str | Compression | None) -> Compression:
    if name is None:
        return Compression.NONE
    if isinstance(name, Compression):
        return name
    known = {codec.name.lower(): codec for codec in Compression}
    if name not in known:
        raise ValueError(f"compression_type={name!r} is not one of {', '.join(known)}")
    return known[name]


__all__ = ["Delivery", "Producer", "RecordMetadata"]
