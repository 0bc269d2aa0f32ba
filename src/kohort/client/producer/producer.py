"""The producer: sends records in batches, and returns where each record was written.

`send` returns as soon as the record is in a batch; awaiting what it returned waits for the broker. With idempotence,
the default, a record is written once and in order however often the connection breaks (KIP-98). With a transactional
id records are written in transactions, which `read_committed` consumers see as a whole or not at all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Self, TypedDict, Unpack

from kohort.client.arguments import check_text, check_topic, whole_number
from kohort.client.cluster.metadata import TopicView
from kohort.client.errors import ClientStopped, UnknownPartition
from kohort.client.producer.accumulator import Delivery, RecordMetadata, record_size
from kohort.client.producer.open_transaction import Transaction, abandon
from kohort.client.producer.partitioner import StickyPartitioner
from kohort.client.producer.producer_config import Acks, CompressionType, ProducerConfig
from kohort.client.producer.producer_metrics import ProducerMetrics
from kohort.client.producer.sender import BatchSender
from kohort.client.producer.transaction_driver import TransactionDriver
from kohort.client.record import SentK, SentV
from kohort.client.settings import ClientSettings, config_of, takes_settings
from kohort.client.tracing import TracerProvider, tracing_of
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.model.setting import of_type
from kohort.net.environment import wall_clock
from kohort.wire.compression import Compression
from kohort.wire.record_batches import EncodedRecords, Record

Headers = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]


class ProducerSettings(ClientSettings, total=False):
    """The keyword arguments of `Producer` but its serializers, which are its type; `ProducerConfig` explains them."""

    acks: Acks
    enable_idempotence: bool | None
    linger_ms: float
    batch_size: int
    compression_type: CompressionType | Compression | None
    max_request_size: int
    buffer_memory: int
    max_block_ms: int
    delivery_timeout_ms: int
    max_in_flight_requests_per_connection: int
    partitioner: Callable[[bytes, int], int]
    allow_auto_create_topics: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    tracer_provider: TracerProvider | None


class SendOptions(TypedDict, total=False):
    """The keyword arguments of `Producer.send` that a record seldom needs."""

    partition: int | None
    timestamp_ms: int | None
    headers: Headers


class Producer(Generic[SentK, SentV]):
    """Writes records to topics of one cluster.

    Settings have Kafka's names, meanings and defaults: `ProducerConfig` lists them, `security_protocol`, `sasl_…` and
    `ssl_…` come with them. Raises TypeError for a setting that does not exist, ValueError for settings that do not go
    together, and CompressionUnavailable.
    """

    @takes_settings(ProducerConfig)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        key_serializer: Callable[[SentK], bytes | None] | None = None,
        value_serializer: Callable[[SentV], bytes | None] | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        own = {"key_serializer": key_serializer, "value_serializer": value_serializer}
        self._config = config = config_of(ProducerConfig, settings, bootstrap_servers=bootstrap_servers, **own)
        self._cluster = config.cluster(allow_auto_create_topics=config.allow_auto_create_topics)
        self._free_bytes = config.buffer_memory
        self._metrics = ProducerMetrics(config.buffer_memory)
        self._blocked: deque[asyncio.Future[None]] = deque()
        self._sticky = StickyPartitioner(config.batch_size, config.random)
        self._sender: BatchSender | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transactions: TransactionDriver | None = None
        self._wall_ms = wall_clock()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @property
    def client_id(self) -> str:
        """The name that brokers know this client by."""
        return self._config.client_id

    async def start(self) -> None:
        """Connect; a second time does nothing. Raises `BrokerUnreachable`, RuntimeError after `stop`.

        With a `transactional_id` other producers of that id are fenced, and what they left open is aborted; raises
        `TransactionFatal`, and `TransactionRetriable` where that was not answered within `max_block_ms`.
        """
        await self._cluster.start()
        if self._sender is not None:
            return
        config = self._config
        self._wall_ms = wall_clock()
        self._loop = asyncio.get_running_loop()
        if (tracing := tracing_of(config.tracer_provider, config.client_id)) is not None:
            # In place of the method: without spans a record costs nothing more.
            self.send = tracing.traced(self.send)  # type: ignore[method-assign, assignment]
        if config.transactional_id is not None:
            self._transactions = TransactionDriver(
                self._cluster, config.transactional_id, config.transaction_timeout_ms, config.max_block_ms
            )
        self._sender = BatchSender(self._cluster, config, self._release, self._transactions, self._metrics)
        self._task = asyncio.create_task(self._sender.run(), name="kohort sender")
        if self._transactions is not None:
            try:
                await self._transactions.start(self._sender.wake)
            except BaseException:
                await self.stop()
                raise

    async def stop(self, *, timeout_ms: int | None = None) -> None:
        """Write what waits, for at most `timeout_ms` (the delivery timeout by default), and end everything.

        Each record that was not written by then fails with `ClientStopped`, and so does a `send` that still waits. An
        open transaction is aborted.
        """
        limit_s = self._config.delivery_timeout_ms / 1000
        if timeout_ms is not None:
            limit_s = whole_number("timeout_ms", timeout_ms, 0) / 1000
        if self._sender is None or self._task is None:
            await self._cluster.close()
            return
        sender, task, transactions = self._sender, self._task, self._transactions
        try:
            async with asyncio.timeout(limit_s):
                if transactions is not None:
                    await abandon(transactions, sender)
                await sender.flush()
        except TimeoutError:
            pass
        finally:
            self._sender = self._task = self._transactions = None
            task.cancel()
            sender.fail(ClientStopped("the record was written"))
            self._release(0)
            await asyncio.gather(task, return_exceptions=True)
            await sender.stop()
            if transactions is not None:
                await transactions.stop()
            await self._cluster.close()

    def transaction(self) -> Transaction:
        """Return a new transaction; `async with` begins it, commits it at the end, and aborts it on an exception.

        Raises RuntimeError without a `transactional_id`, or where the producer is not started.
        """
        if self._config.transactional_id is None:
            raise RuntimeError("this producer has no transactions: pass transactional_id")
        if self._sender is None or self._transactions is None:
            raise _not_started()
        return Transaction(self._transactions, self._sender)

    async def send(
        self,
        topic: str,
        value: SentV | None,
        key: SentK | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Put a record into a batch; await the `Delivery` returned for where it was written.

        A topic that does not exist is made by the broker where it has `auto.create.topics.enable`, also one that was
        deleted meanwhile, unless the producer has `allow_auto_create_topics=False`.

        Key and value are bytes or None, or what the serializers take. Without `partition` the key decides, without a
        key one partition is filled after another. `timestamp_ms` is now by default. Raises TypeError and ValueError
        that name the argument, `UnknownTopic`, `UnknownPartition`, MESSAGE_TOO_LARGE, REQUEST_TIMED_OUT where the
        buffer stayed full, `ClientStopped` where it waited while the producer was stopped. With a `transactional_id`
        the record belongs to the open transaction; raises RuntimeError where none is open, and `TransactionError`.
        """
        sender = self._sender
        if sender is None:
            raise _not_started()
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
            _serialized("key", key, self._config.key_serializer),
            _serialized("value", value, self._config.value_serializer),
            _checked(headers) if headers else (),
        )
        size = record_size(record)
        if size > self._config.max_request_size:
            text = f"a record of {size} bytes is larger than max_request_size={self._config.max_request_size}"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
        view = self._cluster.view.topics.get(topic)
        if view is None or not view.partitions:
            view = await self._cluster.topic(topic)
        chosen = self._choose(view, record.key, partition, size)
        if size > self._free_bytes:
            await self._wait_for_room(sender, size)
        if self._transactions is not None:
            self._transactions.add(chosen)
        batch, is_next = sender.append(chosen, record, size)
        self._free_bytes -= size
        delivery = Delivery(batch, len(batch.records) - 1, timestamp_ms)
        if is_next:
            # A batch just became full. A caller that sends in a tight loop must let the sender run.
            await asyncio.sleep(0)
        return delivery

    async def send_and_wait(
        self, topic: str, value: SentV | None, key: SentK | None = None, **more: Unpack[SendOptions]
    ) -> RecordMetadata:
        """Send one record and return where it was written. Raises as `send` does, and the `KafkaError` of the record.

        It takes a round trip: where many are sent, `send` all of them, and await their deliveries.
        """
        return await (await self.send(topic, value, key, **more))

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic, as Java's `partitionsFor`. Raises `UnknownTopic`, and `KafkaError`."""
        if self._sender is None:
            raise _not_started()
        view = self._cluster.view.topics.get(topic)
        if view is None or not view.partitions:
            view = await self._cluster.topic(topic)
        return [TopicPartition(view.name, number) for number in sorted(view.partitions)]

    async def send_encoded(self, partition: TopicPartition, records: EncodedRecords) -> Delivery:
        """Send records that are encoded as one batch; return the delivery of the first. Raises as `send` does.

        The batch has to fit into `max_request_size` and the topic's `max.message.bytes`; one record more than
        `batch_size` bytes long should be alone in it.
        """
        sender, size = self._sender, len(records.payload)
        if sender is None:
            raise _not_started()
        if size > self._config.max_request_size:
            text = f"a batch of {size} bytes is larger than max_request_size={self._config.max_request_size}"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
        if size > self._free_bytes:
            await self._wait_for_room(sender, size)
        if self._transactions is not None:
            self._transactions.add(partition)
        batch = sender.append_encoded(partition, records)
        self._free_bytes -= size
        await asyncio.sleep(0)  # the sender runs meanwhile
        return Delivery(batch, 0, records.timestamp_ms)

    async def flush(self) -> None:
        """Wait until every record sent so far is written or has failed."""
        if self._sender is not None:
            await self._sender.flush()

    def metrics(self) -> dict[str, float]:
        """Return what this producer measured, by the names of docs/metrics.md. Any thread may call it."""
        now_ms = 0 if self._loop is None else int(self._loop.time() * 1000)
        waiting = sum(not waiter.done() for waiter in list(self._blocked))
        return self._metrics.values(now_ms, self._free_bytes, waiting)

    def _choose(self, view: TopicView, key: bytes | None, partition: int | None, size: int) -> TopicPartition:
        if partition is not None:
            chosen = TopicPartition(view.name, partition)
            if partition not in view.partitions:
                raise UnknownPartition(chosen, len(view.partitions))
            return chosen
        if key is not None:
            return TopicPartition(view.name, self._config.partitioner(key, len(view.partitions)))
        return TopicPartition(view.name, self._sticky.choose(view.name, view.partitions, size))

    async def _wait_for_room(self, sender: BatchSender, size: int) -> None:
        if size > self._config.buffer_memory:
            text = f"a record of {size} bytes does not fit into buffer_memory={self._config.buffer_memory}"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
        loop = asyncio.get_running_loop()
        max_block_ms = self._config.max_block_ms
        deadline_s = loop.time() + max_block_ms / 1000
        while size > self._free_bytes and self._sender is sender:
            waiter: asyncio.Future[None] = loop.create_future()
            self._blocked.append(waiter)
            try:
                async with asyncio.timeout_at(deadline_s):
                    await waiter
            except TimeoutError:
                self._metrics.exhausted.record(1, int(loop.time() * 1000))
                text = (
                    f"buffer_memory={self._config.buffer_memory} stayed full for max_block_ms={max_block_ms}:"
                    " the brokers cannot be reached, or take less than is sent"
                )
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None

    def _release(self, size: int) -> None:
        self._free_bytes += size
        while self._blocked:
            waiter = self._blocked.popleft()
            if not waiter.done():
                waiter.set_result(None)


def _not_started() -> RuntimeError:
    return RuntimeError("the producer is not started: use 'async with Producer(…)' or await start()")


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
            raise TypeError(f"headers contains {pair!r}: expected pairs of a str and bytes, or a dict")
        name, value = pair
        check_text("a header's name", name)
        if value is not None and not isinstance(value, bytes):
            raise TypeError(f"the value of header {name!r} is bytes or None, not {type(value).__name__}")
    return pairs
