"""Spans of OpenTelemetry for records that are sent, polled and processed, with the trace context in record headers.

A client has none unless the program has a tracer provider: its setting `tracer_provider`, or the global one where the
program has set one before the client starts. Then nothing is looked at for any record, and the package is not loaded.
Names and attributes follow the semantic conventions for messaging of 1.28, which most backends know. No span has a key
or a value of a record.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

from kohort.client.record import Record
from kohort.model.errors import KafkaError
from kohort.model.extras import install_command
from kohort.net.environment import wall_clock


class _Delivery(Protocol):
    """What `Producer.send` returns."""

    def when_done(self, notify: Callable[[], None], /) -> None: ...
    def result(self) -> Any: ...


DeliveryT = TypeVar("DeliveryT", bound=_Delivery)


@runtime_checkable
class TracerProvider(Protocol):
    """A TracerProvider of OpenTelemetry."""

    def get_tracer(self, instrumenting_module_name: str, /) -> Any: ...


def tracing_of(provider: TracerProvider | None, client_id: str, group_id: str | None = None) -> Tracing | None:
    """Return what makes a client's spans, None where it has none. Raises ImportError with advice."""
    # A program that has set a provider has loaded the module; a program that has not does not pay for loading it.
    api = sys.modules.get("opentelemetry.trace")
    if provider is None and api is not None:
        provider = api.get_tracer_provider()
    if provider is None or (api and isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider)):
        return None
    return Tracing(provider, client_id, group_id)


class Tracing:
    """Makes the spans of one client."""

    def __init__(self, provider: TracerProvider, client_id: str, group_id: str | None) -> None:
        try:
            from opentelemetry import context, propagate, trace
        except ImportError as cause:
            raise ImportError(f"spans need opentelemetry-api: {install_command('telemetry')}") from cause
        self._tracer = provider.get_tracer("kohort")
        self._context, self._propagate, self._trace = context, propagate, trace
        self._names = frozenset(propagate.get_global_textmap().fields)
        self._attributes: dict[str, object] = {"messaging.system": "kafka", "messaging.client.id": client_id}
        if group_id is not None:
            self._attributes["messaging.consumer.group.name"] = group_id

    # The producer

    def traced(self, send: Callable[..., Awaitable[DeliveryT]]) -> Callable[..., Awaitable[DeliveryT]]:
        """Return `Producer.send` with a span for each record, which ends when the record is written or has failed."""

        async def send_in_span(
            topic: str,
            value: object,
            key: object = None,
            partition: int | None = None,
            timestamp_ms: int | None = None,
            headers: Any = (),
        ) -> DeliveryT:
            span = self._tracer.start_span(
                f"send {topic}",
                kind=self._trace.SpanKind.PRODUCER,
                attributes=self._about("send", str(topic)) | ({} if value is not None else {_TOMBSTONE: True}),
            )
            try:
                carrier: dict[str, str] = {}
                self._propagate.inject(carrier, self._trace.set_span_in_context(span))
                headers = _with_context(headers, carrier)
                delivery = await send(topic, value, key, partition, timestamp_ms, headers)
            except BaseException as error:
                self._fail(span, error)
                span.end()
                raise
            delivery.when_done(lambda: self._end_send(span, delivery))
            return delivery

        return send_in_span

    def _end_send(self, span: Any, delivery: _Delivery) -> None:
        try:
            written = delivery.result()
        except KafkaError as error:
            self._fail(span, error)
        else:
            span.set_attribute(_PARTITION, str(written.partition))
            if written.offset >= 0:
                span.set_attribute(_OFFSET, written.offset)
        span.end()

    # The consumer

    def polled(self, records: Sequence[Record[Any, Any]], waited_ms: int) -> None:
        """Make the span of a poll that has returned records, with a link to the span that each was sent in."""
        links = [
            self._trace.Link(sent, {_PARTITION: str(record.partition), _OFFSET: record.offset})
            for record in records
            if (sent := self._sent_in(record)) is not None
        ]
        partitions = {record.topic_partition for record in records}
        topics = {partition.topic for partition in partitions}
        topic = topics.pop() if len(topics) == 1 else ""
        about = self._about("receive", topic) | {"messaging.batch.message_count": len(records)}
        if len(partitions) == 1:
            about[_PARTITION] = str(records[0].partition)
        began_ns = (wall_clock()() - waited_ms) * 1_000_000
        kind = self._trace.SpanKind.CLIENT
        self._tracer.start_span(
            f"poll {topic}".rstrip(), kind=kind, attributes=about, links=links, start_time=began_ns
        ).end()

    def processing(self, record: Record[Any, Any]) -> AbstractContextManager[Any]:
        """Return the span of a record's processing, whose parent is the span that the record was sent in."""
        about = self._about("process", record.topic) | {
            _PARTITION: str(record.partition),
            _OFFSET: record.offset,
            **({} if record.value is not None else {_TOMBSTONE: True}),
        }
        return self._process(f"process {record.topic}", about, record)

    @contextmanager
    def _process(self, name: str, about: dict[str, object], record: Record[Any, Any]) -> Iterator[Any]:
        around = self._trace.get_current_span().get_span_context()
        carrier = self._carrier(record)
        links = [self._trace.Link(around)] if carrier and around.is_valid else []
        token = self._context.attach(self._propagate.extract(carrier, self._context.get_current()))
        try:
            kind = self._trace.SpanKind.CONSUMER
            with self._tracer.start_as_current_span(name, kind=kind, attributes=about, links=links) as span:
                try:
                    yield span
                except Exception as error:
                    span.set_attribute("error.type", _type_of(error))
                    raise
        finally:
            self._context.detach(token)

    def _sent_in(self, record: Record[Any, Any]) -> Any:
        if not (carrier := self._carrier(record)):
            return None
        nothing = self._context.Context()
        sent = self._trace.get_current_span(self._propagate.extract(carrier, nothing)).get_span_context()
        return sent if sent.is_valid else None

    def _carrier(self, record: Record[Any, Any]) -> dict[str, str]:
        names = self._names
        return {name: value.decode("utf-8", "replace") for name, value in record.headers if name in names and value}

    def _about(self, operation: str, topic: str) -> dict[str, object]:
        name = "poll" if operation == "receive" else operation
        about = self._attributes | {"messaging.operation.name": name, "messaging.operation.type": operation}
        return about | {"messaging.destination.name": topic} if topic else about

    def _fail(self, span: Any, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            span.set_attribute("error.type", "cancelled")
            return
        span.record_exception(error)
        span.set_attribute("error.type", _type_of(error))
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(error)))


_PARTITION, _OFFSET = "messaging.destination.partition.id", "messaging.kafka.offset"
_TOMBSTONE = "messaging.kafka.message.tombstone"


def _type_of(error: BaseException) -> str:
    return error.code.name if isinstance(error, KafkaError) else type(error).__qualname__


def _with_context(headers: Any, carrier: Mapping[str, str]) -> Any:
    """Return a record's headers with those of the trace, in place of such headers that they may have."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    if not isinstance(pairs, Iterable):
        return headers  # `send` refuses it
    own = [pair for pair in pairs if not (isinstance(pair, tuple) and pair and pair[0] in carrier)]
    return [*own, *((name, value.encode()) for name, value in carrier.items())]
