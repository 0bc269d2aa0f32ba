"""`df.write.format("kohort")` and `writeStream`: rows as records of topics, with the columns of Spark's own sink.

Each task has a producer of its own, which is idempotent: no record is written twice or out of order by a retry of the
producer. A task or micro-batch that Spark runs again writes its records again, as Spark's own sink does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import randrange
from typing import TYPE_CHECKING, Any

from pyarrow.compute import equal
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kohort.client.errors import UnknownTopic
from kohort.client.producer.accumulator import Delivery
from kohort.client.producer.producer import Producer
from kohort.client.producer.producer_config import ProducerConfig
from kohort.model.errors import KafkaError
from kohort.model.setting import settings_of
from kohort.net.environment import wall_clock
from kohort.spark.loop_thread import LoopThread
from kohort.spark.options.option_values import Given
from kohort.spark.options.source_options import SourceOptions
from kohort.spark.rows.read_settings import security
from kohort.spark.rows.record_frames import COLUMNS, record_columns
from kohort.spark.rows.row_encoder import RowEncoder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_PRODUCER = """
    acks batch_size buffer_memory compression_type delivery_timeout_ms enable_idempotence linger_ms max_block_ms
    max_in_flight_requests_per_connection max_request_size request_timeout_ms
"""
_OPTIONS = {name: f"kafka.{name.replace('_', '.')}" for name in _PRODUCER.split()}
"""Settings of the tasks' producers, and the options that set them."""


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """How a task writes: `columns` are those of the sink that the rows have; `producer` are the producer's settings."""

    options: SourceOptions
    columns: tuple[str, ...]
    producer: Mapping[str, Any]

    @classmethod
    def parse(cls, options: Mapping[str, str], schema: StructType) -> SinkSettings:
        """Parse options and check the columns. Raises ValueError."""
        parsed = SourceOptions.parse(options, "write")
        given = Given(options)
        columns = record_columns(schema)
        if "topic" not in columns and parsed.topic is None:
            raise ValueError("a sink needs the option topic, or a column topic")
        settings = settings_of(ProducerConfig)
        producer = {
            name: replace(settings[name], name=option).parse(text)
            for name, option in _OPTIONS.items()
            if (text := given.text(option)) is not None
        }
        try:
            Producer(parsed.read.bootstrap_servers, **producer)
        except ValueError as error:
            raise ValueError(f"kafka.*: {error}") from None
        return cls(parsed, columns, producer)

    def write(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows, and return when all of them are acknowledged. Raises KafkaError, ValueError."""
        producer = Producer(
            self.options.read.bootstrap_servers,
            client_id=self.options.read.client_id,
            allow_auto_create_topics=self.options.allow_auto_create_topics,
            **security(self.options.read.properties),
            **self.producer,
        )
        thread = LoopThread("kohort producer")
        try:
            thread.call(producer.start())
            sent = _Sent()
            for batch in batches:
                thread.call(self._send(producer, batch, sent))
            thread.call(producer.flush())
            sent.check()
        except UnknownTopic as error:
            raise KafkaError(
                error.code, f"{error.text}; kafka.allow.auto.create.topics=true lets the broker create it"
            ) from None
        finally:
            try:
                thread.call(producer.stop(timeout_ms=0))
            finally:
                thread.close()
        return WriterCommitMessage()

    async def _send(self, producer: Producer, batch: pa.RecordBatch, sent: _Sent) -> None:
        """Send a batch's rows: `buffer_memory` bounds what is not acknowledged yet. Raises for one of before."""
        sent.check()
        if "headers" in self.columns and batch["headers"].null_count < batch.num_rows:
            await self._send_one_by_one(producer, batch, sent)
            return
        for topic, rows in self._by_topic(batch):
            partitions = await producer.partitions_for(topic)
            encoder = RowEncoder(rows["key"] if "key" in self.columns else None, rows["value"], wall_clock()())
            given = rows["partition"] if "partition" in self.columns else None
            targets = encoder.targets(len(partitions), randrange(len(partitions)), given)
            for partition, records in encoder.batches(targets):
                sent.add(await producer.send_encoded(partitions[partition], records))

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of each topic. Raises ValueError for a row without one."""
        if self.options.topic is not None:
            yield self.options.topic, batch
            return
        topics = batch["topic"].dictionary_encode()
        if topics.null_count:
            raise ValueError("a row has null as its topic, and the option topic is not set")
        for number, topic in enumerate(topics.dictionary.to_pylist()):
            yield topic, batch.filter(equal(topics.indices, number))

    async def _send_one_by_one(self, producer: Producer, batch: pa.RecordBatch, sent: _Sent) -> None:
        rows = batch.num_rows
        of = {name: batch[name].to_pylist() if name in self.columns else [None] * rows for name in COLUMNS}
        topics = [self.options.topic] * rows if self.options.topic is not None else of["topic"]
        for topic, key, value, headers, partition in zip(
            topics, of["key"], of["value"], of["headers"], of["partition"], strict=True
        ):
            if topic is None:
                raise ValueError("a row has null as its topic, and the option topic is not set")
            pairs = [(header["key"], header["value"]) for header in headers or ()]
            sent.add(await producer.send(topic, _bytes(value), _bytes(key), partition, headers=pairs))


class _Sent:
    """Deliveries of a task that are not known to be written."""

    def __init__(self) -> None:
        self._open: list[Delivery] = []

    def add(self, delivery: Delivery) -> None:
        self._open.append(delivery)

    def check(self) -> None:
        """Forget what is written. Raises the KafkaError of what was not."""
        for delivery in self._open:
            if delivery.done():
                delivery.result()
        self._open = [each for each in self._open if not each.done()]


class _TaskWriter:
    """Writes the rows of each task."""

    def __init__(self, settings: SinkSettings) -> None:
        self.settings = settings

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        return self.settings.write(iterator)


class Writer(_TaskWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """Writes the rows of a batch query."""


class StreamWriter(_TaskWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes the rows of a streaming query, micro-batch by micro-batch."""


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content
