"""Spans of OpenTelemetry as its SDK's exporter gets them, from clients of both APIs, and trace context in headers."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from contextlib import suppress

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode

import kohort
from kohort import sync
from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Batch, Record
from kohort.model.errors import KafkaError

TRACEPARENT = re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-9a-f]")


class Traced:
    """A tracer provider of a test's own, and the spans that have ended."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("a program")

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        (span,) = self.spans(name)
        return span


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def check_one_trace(traced: Traced, topic: str, records: list[Record]) -> None:
    """The program's span holds the sends; each record is processed in the trace in which it was sent."""
    send, other = traced.spans(f"send {topic}")
    assert parent_of(send) == parent_of(other) == id_of(traced.span("order"))
    assert send.kind is SpanKind.PRODUCER
    assert send.attributes == {
        "messaging.system": "kafka",
        "messaging.client.id": "mill",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
    }
    assert other.attributes is not None
    assert other.attributes["messaging.kafka.message.tombstone"] is True
    assert other.attributes["messaging.kafka.offset"] == 1
    poll = traced.span(f"poll {topic}")
    assert poll.kind is SpanKind.CLIENT
    assert [link.context.span_id for link in poll.links] == [id_of(send), id_of(other)]
    assert [(link.attributes or {})["messaging.kafka.offset"] for link in poll.links] == [0, 1]
    assert poll.attributes == {
        "messaging.system": "kafka",
        "messaging.client.id": "oven",
        "messaging.consumer.group.name": topic,
        "messaging.operation.name": "poll",
        "messaging.operation.type": "receive",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.batch.message_count": 3,
    }
    first, second, untraced = traced.spans(f"process {topic}")
    assert [parent_of(span) for span in (first, second)] == [id_of(send), id_of(other)]
    assert parent_of(untraced) == id_of(traced.span("work")), "it was sent without a trace"
    assert [link.context.span_id for link in first.links] == [id_of(traced.span("work"))]
    assert first.kind is SpanKind.CONSUMER
    assert first.attributes is not None
    assert first.attributes["messaging.operation.type"] == first.attributes["messaging.operation.name"] == "process"
    assert (poll.start_time or 0) < (poll.end_time or 0) <= (first.start_time or 0)
    names = [[name for name, _ in record.headers] for record in records]
    assert names == [["shop", "traceparent"], ["traceparent"], []], "a trace in the headers that were given is replaced"
    sent = [dict(record.headers)["traceparent"] or b"" for record in records[:2]]
    assert all(TRACEPARENT.fullmatch(text) for text in sent)


def test_a_record_is_processed_in_the_trace_in_which_it_was_sent(shared_broker: EmbeddedBroker) -> None:
    traced, topic, address = Traced(), "async", shared_broker.bootstrap_servers

    async def scenario() -> list[Record]:
        async with kohort.Producer(address, client_id="mill", tracer_provider=traced.provider) as producer:
            with traced.tracer.start_as_current_span("order"):
                await producer.send(topic, b"1", headers={"shop": b"7", "traceparent": b"stale"})
                await producer.send(topic, None, b"key", partition=0)
            await producer.flush()
        async with kohort.Producer(address, tracer_provider=NoOpTracerProvider()) as plain:
            await plain.send(topic, b"3")
        consumer = kohort.Consumer(
            topic, bootstrap_servers=address, group_id=topic, client_id="oven", auto_offset_reset="earliest",
            tracer_provider=traced.provider,
        )  # fmt: skip
        async with consumer:
            records: list[Record] = []
            assert await consumer.poll(0) == []
            (batch,) = await consumer.poll(20_000)
            with traced.tracer.start_as_current_span("work"):
                for record in batch:
                    with consumer.processing(record):
                        records.append(record)
            assert await consumer.poll(1) == [], "a poll without records has no span"
        return records

    check_one_trace(traced, topic, asyncio.run(scenario()))


def test_blocking_clients_have_the_same_spans_below_those_of_their_threads(shared_broker: EmbeddedBroker) -> None:
    traced, topic, address = Traced(), "blocking", shared_broker.bootstrap_servers
    mill = sync.Producer(address, client_id="mill", tracer_provider=traced.provider)
    with mill as producer, traced.tracer.start_as_current_span("order"):
        producer.send(topic, b"1", headers=[("shop", b"7"), ("traceparent", b"stale")])
        producer.send(topic, None, b"key", 0)
    with sync.Producer(address) as plain:
        plain.send(topic, b"3")
    records: list[Record] = []
    consumer = sync.Consumer(
        topic, bootstrap_servers=address, group_id=topic, client_id="oven", auto_offset_reset="earliest",
        tracer_provider=traced.provider,
    )  # fmt: skip
    with consumer:
        (batch,) = consumer.poll(20_000)
        with traced.tracer.start_as_current_span("work"):
            for record in batch:
                with consumer.processing(record):
                    records.append(record)
    check_one_trace(traced, topic, records)


def test_what_fails_is_an_error_of_its_span(shared_broker: EmbeddedBroker) -> None:
    traced, address = Traced(), shared_broker.bootstrap_servers
    with sync.Admin(address) as admin:
        admin.create_topic("small", configs={"max.message.bytes": "1000"})
    with sync.Producer(address, max_request_size=10_000, tracer_provider=traced.provider) as producer:
        with pytest.raises(KafkaError):
            producer.send("small", b"x" * 20_000)
        with pytest.raises(KafkaError):
            producer.send("small", b"x" * 2_000).result()
        with pytest.raises(TypeError, match="headers"):
            producer.send("small", b"", headers=5)  # type: ignore[arg-type]
        producer.send("small", b"1").result()
    with sync.Consumer("small", bootstrap_servers=address, tracer_provider=traced.provider) as consumer:
        consumer.seek_to_beginning()
        batches: list[Batch] = []
        while not batches:
            batches = consumer.poll(1_000)
        for batch in batches:
            for record in batch:
                with suppress(ZeroDivisionError), consumer.processing(record):
                    assert not 1 / 0
    ended = [*traced.spans("send small"), *traced.spans("process small")]
    assert [span.status.status_code for span in ended] == [StatusCode.ERROR] * 3 + [StatusCode.UNSET, StatusCode.ERROR]
    types = [(span.attributes or {}).get("error.type") for span in ended]
    assert types == ["MESSAGE_TOO_LARGE", "MESSAGE_TOO_LARGE", "WrongSetting", None, "ZeroDivisionError"]
    assert all(len(span.events) == (span.status.status_code is StatusCode.ERROR) for span in ended), "the exception"


PROGRAM = """
import sys
from kohort.sync import Consumer, Producer
if "api" in sys.argv:
    import opentelemetry.trace
producer = Producer(sys.argv[1])
with producer:
    producer.send("off", b"1").result()
    assert "send" not in vars(producer._client), "the method is that of the class"
with Consumer("off", bootstrap_servers=sys.argv[1], group_id="off", auto_offset_reset="earliest") as consumer:
    record = next(consumer)
    with consumer.processing(record) as span:
        assert span is None
    assert record.headers == ()
assert "api" in sys.argv or not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


@pytest.mark.parametrize("words", [(), ("api",)], ids=["not loaded", "loaded, and no provider is set"])
def test_without_a_tracer_provider_nothing_is_loaded_or_done(shared_broker: EmbeddedBroker, words: tuple[str]) -> None:
    command = [sys.executable, "-c", PROGRAM.replace('"off"', repr("-".join(("off", *words))))]
    command += [shared_broker.bootstrap_servers, *words]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_what_is_no_tracer_provider_is_refused(shared_broker: EmbeddedBroker) -> None:
    with pytest.raises(TypeError, match=r"tracer_provider.*a TracerProvider of OpenTelemetry"):
        sync.Producer(shared_broker.bootstrap_servers, tracer_provider="on")  # type: ignore[arg-type]
