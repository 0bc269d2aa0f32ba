"""One trace from the program that sends a record to the one that processes it: kohort[telemetry], opentelemetry-sdk."""

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from kohort.sync import Consumer, Producer
from kohort.testing import EmbeddedBroker

traces: list[int] = []


def text(span: ReadableSpan) -> str:
    assert span.context is not None
    if span.context.trace_id not in traces:
        traces.append(span.context.trace_id)
    number = 1 + traces.index(span.context.trace_id)
    return f"{span.name} ({span.kind.name}) in trace {number}, {len(span.links)} links\n"


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=text)))
trace.set_tracer_provider(provider)

with EmbeddedBroker() as broker, Producer(broker.bootstrap_servers) as producer:
    producer.send("orders", b"42").result()
    address = broker.bootstrap_servers
    with Consumer("orders", bootstrap_servers=address, group_id="billing", auto_offset_reset="earliest") as consumer:
        record = next(consumer)
        with consumer.processing(record):
            print("bill", record.value)
