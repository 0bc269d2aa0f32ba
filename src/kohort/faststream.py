"""FastStream's Kafka broker with kohort's consumer below its subscribers; its publishers stay on aiokafka.

A subscriber asks for one record after another. Here it asks once: that call runs `Consumer.process`, which calls the
subscriber's pipeline (parser, middlewares, injected arguments, publishers) until the broker stops. Of FastStream only
names without an underscore are used; not documented are `broker.config.broker_config.builder`, which makes a
subscriber's consumer, and `subscriber.process_message`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kohort.client.consumer.consumer import Consumer
from kohort.client.consumer.consumer_settings import SharedConsumerSettings
from kohort.client.consumer.processing.process_settings import (
    REVOCATION_TIMEOUT_MS,
    ProcessOptions,
    ProcessSettings,
)
from kohort.client.record import Record
from kohort.model.extras import install_command
from kohort.net.sasl import Sasl

try:
    from aiokafka import ConsumerRecord
    from aiokafka.errors import ConsumerStoppedError
    from faststream.exceptions import AckMessage, RejectMessage, SetupError
    from faststream.kafka import KafkaBroker
    from faststream.middlewares import AckPolicy
except ImportError as cause:
    raise ImportError(f"kohort.KohortBroker needs FastStream: {install_command('faststream')}") from cause

if TYPE_CHECKING:
    from faststream.kafka.subscriber.usecase import LogicSubscriber

__all__ = ["KohortBroker"]

REFUSED = {
    "ack_policy": "a record is finished when its function returns; on_error= decides about what fails",
    "batch_timeout_ms": "a list has what is there; max_records= is its limit",
    "key_deserializer": "a function gets keys from the message, and a codec decodes values",
    "listener": "partitions are given back once their functions have finished",
    "max_workers": "concurrency= is how many functions run at once, in the order of each key",
    "partitions": "the group assigns partitions: name topics",
    "value_deserializer": "a codec decodes values: codec= or decoder=",
}
"""Options of FastStream's subscriber that mean nothing here, and what is instead."""


class KohortBroker(KafkaBroker):  # type: ignore[misc]
    """A FastStream broker whose subscribers call their functions by `Consumer.process`.

    It takes what `KafkaBroker` takes. `subscriber` takes the arguments of `process` too (`concurrency`, `ordering`,
    `on_error`) and the settings of a `Consumer`; where `on_error` lets a failure stop, the application ends, and `stop`
    raises it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._running: list[_ProcessingConsumer] = []

    def subscriber(
        self, *topics: Any, group_id: str | None = None, batch: bool = False, **options: Any
    ) -> LogicSubscriber[Any]:
        """Return a subscriber, as `KafkaBroker.subscriber`. Raises `SetupError` for what is not possible here."""
        if refused := sorted(options.keys() & REFUSED):
            raise SetupError(f"KohortBroker has no {refused[0]}: {REFUSED[refused[0]]}")
        if group_id is None:
            raise SetupError("KohortBroker commits what has finished: give subscriber(…) a group_id")
        carried = _Carried(
            {**_taken(options, SharedConsumerSettings.__annotations__), "group_id": group_id},
            _taken(options, ProcessOptions.__annotations__),
            (options.get("max_records") or 500) if batch else None,
        )
        carried.subscriber = super().subscriber(
            *topics,
            group_id=group_id,
            batch=batch,
            key_deserializer=carried,  # the option that is passed on to `builder` as it is
            ack_policy=AckPolicy.ACK_FIRST,  # FastStream neither commits nor seeks
            **options,
        )
        return carried.subscriber

    async def connect(self) -> Any:
        """Connect, and have subscribers get consumers of kohort."""
        connection = await super().connect()
        config = self.config.broker_config
        if isinstance(config.builder, partial):  # of aiokafka's consumer; a test broker has another
            config.builder = partial(self._consumer, connection_of(config.builder.keywords))
        return connection

    async def stop(self, *failure: Any) -> None:
        """Let the functions that run finish, commit, leave the groups, and stop. Raises what ended a subscriber."""
        await asyncio.gather(*(each.stop() for each in self._running))
        await super().stop(*failure)
        ended, self._running = self._running, []
        for each in ended:
            if each.failure is not None:
                raise each.failure

    def _consumer(
        self, connection: Mapping[str, Any], key_deserializer: _Carried, **_of_faststream: Any
    ) -> _ProcessingConsumer:
        settings = {**connection, **key_deserializer.settings}
        timeout_s = self.config.broker_config.graceful_timeout
        timeout_ms = REVOCATION_TIMEOUT_MS if timeout_s is None else round(timeout_s * 1000)
        consumer = _ProcessingConsumer(key_deserializer, settings, timeout_ms, self._exit)
        self._running.append(consumer)
        return consumer

    def _exit(self) -> None:
        if (app := self.context.get("app")) is not None:
            app.exit()


class _Carried:
    """What a subscriber's consumer is made of; it travels as the subscriber's option `key_deserializer`."""

    def __init__(self, settings: Mapping[str, Any], how: ProcessOptions, batch: int | None) -> None:
        # So that a wrong setting is refused where it is written.
        Consumer(bootstrap_servers="localhost:9092", **settings)
        ProcessSettings(handler=print, batch=batch, **how)
        self.settings = settings
        self.how = how
        self.batch = batch
        self.subscriber: Any = None


class _ProcessingConsumer:
    """What a subscriber does with aiokafka's consumer."""

    def __init__(self, carried: _Carried, settings: Mapping[str, Any], timeout_ms: int, on_failure: Any) -> None:
        self._carried = carried
        self._timeout_ms = timeout_ms
        self._on_failure = on_failure
        self._consumer: Consumer = Consumer(**settings)
        self._topics: Any = ()
        self.failure: BaseException | None = None

    def subscribe(self, topics: Iterable[str] = (), pattern: str | None = None, **_listener: Any) -> None:
        """Note what to read."""
        self._topics = re.compile(pattern) if pattern else list(topics)

    async def start(self) -> None:
        """Connect, and begin to join the group."""
        await self._consumer.subscribe(self._topics)
        await self._consumer.start()

    async def stop(self) -> None:
        """Let the functions that run finish, commit, and leave the group."""
        await self._consumer.stop(timeout_ms=self._timeout_ms)

    async def getone(self) -> Any:
        """Handle records until the consumer stops. Raises `ConsumerStoppedError` then."""
        how: ProcessOptions = {"revocation_timeout_ms": self._timeout_ms * 4 // 5, **self._carried.how}
        batch = self._carried.batch
        try:
            if batch is None:
                await self._consumer.process(self._one, **how)
            else:
                await self._consumer.process(self._several, batch=batch, **how)
        except Exception as error:
            self.failure = error
            self._on_failure()
        raise ConsumerStoppedError

    async def getmany(self, **_limits: Any) -> Any:
        """Handle records, as `getone`."""
        return await self.getone()

    async def _one(self, record: Record) -> None:
        await self._call(_raw(record))

    async def _several(self, records: list[Record]) -> None:
        await self._call(tuple(map(_raw, records)))

    async def _call(self, raw: Any) -> None:
        try:
            await self._carried.subscriber.process_message(raw)
        except (AckMessage, RejectMessage):
            return  # raised by a function that is done with its record


def _raw(record: Record) -> Any:
    return ConsumerRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp_ms,
        timestamp_type=0,
        key=record.key,
        value=record.value,
        checksum=None,
        serialized_key_size=-1 if record.key is None else len(record.key),
        serialized_value_size=-1 if record.value is None else len(record.value),
        headers=tuple((name, value or b"") for name, value in record.headers),
    )


def _taken(options: dict[str, Any], names: Iterable[str]) -> Any:
    return {name: options.pop(name) for name in names if name in options}


def connection_of(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of kohort's clients for those of aiokafka's."""
    settings: dict[str, Any] = {"bootstrap_servers": keywords["bootstrap_servers"]}
    if "SSL" in keywords.get("security_protocol", ""):
        settings["tls"] = keywords["ssl_context"]
    if (mechanism := keywords.get("sasl_mechanism")) and "SASL" in keywords.get("security_protocol", ""):
        settings["sasl"] = Sasl(mechanism, keywords["sasl_plain_username"], keywords["sasl_plain_password"])
    return settings
