"""The rows of offset ranges, fetched and decoded to Arrow batches in the processes of Spark's tasks.

The law: the same ranges give the same rows, however often they are read. At most two Fetch responses are in memory: one
that is being decoded and the next one. It knows nothing of groups.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import pyarrow as pa

from kohort.client.arguments import bootstrap_addresses
from kohort.client.cluster.offset_specs import ISOLATION
from kohort.client.consumer.range_reader import ADVICE, RangeReader, read_ranges
from kohort.client.decode.arrow_decoder import Decoder, default_decoder, iter_arrow
from kohort.client.decode.plain_decoder import HEADERS, TIMESTAMP
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.rows.read_settings import ReadSettings, security
from kohort.spark.rows.rounds import OffsetRange
from kohort.spark.rows.value_decoding import DecodedRows
from kohort.wire.record_batches import CorruptBatch, iter_batches

log = logging.getLogger(__name__)

_SAMPLE_BYTES = 64 << 10
_UNPACKED_BYTES = 4 << 20
"""Bytes of decompressed records after which a batch of rows ends: they may be many times what was fetched."""

ARROW_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
"""Exact Arrow types: Spark compares them with its own reading of `spark_columns.SPARK_SCHEMA`."""

_SCHEMA_WITH_HEADERS = ARROW_SCHEMA.append(pa.field("headers", HEADERS))

_PLAIN_ROWS = 20_000
"""Rows of a process that are decoded in plain Python: loading the compiled decoder takes longer than these."""


def arrow_schema(include_headers: bool = False) -> pa.Schema:
    """Return `ARROW_SCHEMA`, with headers if they are read too."""
    return _SCHEMA_WITH_HEADERS if include_headers else ARROW_SCHEMA


def with_place(records: pa.RecordBatch, partition: TopicPartition) -> pa.RecordBatch:
    """Return decoded records, which have a timestamp type and may have headers, as a batch of `arrow_schema`."""
    rows = records.num_rows
    topic = pa.repeat(pa.scalar(partition.topic, pa.string()), rows)
    number = pa.repeat(pa.scalar(partition.partition, pa.int32()), rows)
    offset, timestamp, key, value, timestamp_type, *headers = records.columns
    columns = [key, value, topic, number, offset, timestamp, timestamp_type, *headers]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(bool(headers)))


class Decoders:
    """Chooses the decoder of a process: Spark starts new processes for the first tasks of an application."""

    def __init__(self) -> None:
        self._rows = 0

    def for_rows(self, rows: int) -> Decoder:
        """Return the decoder for another `rows` rows."""
        self._rows += rows
        if self._rows > _PLAIN_ROWS or "kohort.client.decode.numba_decoder" in sys.modules:
            return default_decoder()
        from kohort.client.decode.plain_decoder import decode

        return decode


_decoders = Decoders()


def read_rows(
    settings: ReadSettings, ranges: Iterable[OffsetRange], topic_ids: Mapping[str, str] | None = None
) -> Generator[pa.RecordBatch]:
    """Yield the rows of ranges, one range after the other; each batch has rows of one partition, in order of offsets.

    The columns are `arrow_schema(settings.include_headers)`, exactly, or those of `decoded_schema`. Raises
    CorruptBatch, RegistryUnavailable, and KafkaError where records of a range were deleted, where `topic_ids` show that
    its topic was recreated, and where the dead-letter topic cannot be written.
    """
    with closing(range_reader(settings)) as reader, DecodedRows(settings) as decoded:
        for _, rows, damage in read_rows_by_range(settings, ranges, topic_ids, reader=reader):
            yield decoded.of(rows, damage)


def range_reader(settings: ReadSettings) -> RangeReader:
    """Return what fetches ranges, not connected yet. Raises ValueError, OSError for the security settings."""
    return RangeReader(
        bootstrap_addresses(settings.bootstrap_servers),
        settings.fetch_bytes,
        client_id=settings.client_id,
        timeout_ms=settings.timeout_ms,
        **security(settings.properties),
        isolation=ISOLATION[settings.isolation],
        rack=settings.client_rack,
        lost=None if settings.fail_on_data_loss else _warn,
    )


def read_rows_by_range(
    settings: ReadSettings,
    ranges: Iterable[OffsetRange],
    topic_ids: Mapping[str, str] | None = None,
    *,
    reader: RangeReader,
) -> Generator[tuple[OffsetRange, pa.RecordBatch, str]]:
    """Yield the rows of ranges as they are, each with its range; a partition is in one range.

    Where values are decoded, a record batch that is damaged is one row at its first offset, whose value are its bytes,
    and the text names its fault; else it is empty, and a damaged batch raises CorruptBatch.
    """
    ranges = list(ranges)
    wanted = {each.partition: each for each in ranges}
    assert len(wanted) == len(ranges), "a partition is in one range"
    decoder = _decoders.for_rows(sum(each.size for each in ranges))
    fetched = reader.read([(each.partition, each.start, each.stop) for each in ranges], topic_ids)
    try:
        for partition, buffer, asked_for in fetched:
            each = wanted[partition]
            decoded = partial(
                iter_arrow,
                topic=partition.topic,
                partition=partition.partition,
                stop_offset=each.stop,
                timestamp_type=True,
                headers=settings.fetches_headers,
                decoder=decoder,
                limit=max(_UNPACKED_BYTES, settings.fetch_bytes),
            )
            first = max(each.start, asked_for)
            try:
                for records in decoded(buffer, first_offset=first):
                    if records.num_rows:
                        yield each, with_place(records, partition), ""
                        first = records["offset"][-1].as_py() + 1
            except CorruptBatch:
                if settings.decoding is None:
                    raise
                for rows, damage in _one_by_one(buffer, each, first, arrow_schema(settings.fetches_headers), decoded):
                    yield each, rows, damage
    except KafkaError as error:
        if error.code not in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_ID):
            raise
        what = error.text.removesuffix(ADVICE)
        raise KafkaError(error.code, f"{what}; failOnDataLoss=false skips what is lost") from None
    finally:
        fetched.close()


def _one_by_one(
    buffer: memoryview, each: OffsetRange, first: int, schema: pa.Schema, decoded: Callable[..., Any]
) -> Iterator[tuple[pa.RecordBatch, str]]:
    """Yield the rows of each batch from an offset on; a damaged batch as one row, with what is wrong with it.

    Raises CorruptBatch where the header of a damaged batch does not agree with itself about how many offsets it has.
    """
    for header, batch in iter_batches(buffer):
        if header.last_offset < first or header.base_offset >= each.stop:
            continue
        try:
            found = list(decoded(batch, first_offset=first))
        except CorruptBatch as error:
            if header.record_count != header.last_offset_delta + 1:
                raise
            row = {**each.partition._asdict(), "offset": header.base_offset, "value": bytes(batch), "timestampType": 0}
            text = f"the record batch of offsets {header.base_offset} to {header.last_offset} is damaged: {error.text}"
            yield pa.RecordBatch.from_pylist([row], schema), text
        else:
            yield from ((with_place(records, each.partition), "") for records in found if records.num_rows)


def bytes_per_offset(settings: ReadSettings, sample: OffsetRange) -> float:
    """Return the bytes per offset at the beginning of a range, as fetched: compressed where batches are.

    It reads one small Fetch. Raises KafkaError where the range cannot be read.
    """
    fetched = read_ranges(
        settings.bootstrap_servers,
        [(sample.partition, sample.start, sample.stop)],
        _SAMPLE_BYTES,
        client_id=settings.client_id,
        **security(settings.properties),
        rack=settings.client_rack,
        lost=lambda *_: None,
    )
    with closing(fetched):
        for _, buffer, _ in fetched:
            headers = [header for header, _ in iter_batches(buffer)]
            if headers:
                offsets = headers[-1].base_offset + headers[-1].last_offset_delta + 1 - headers[0].base_offset
                return len(buffer) / max(offsets, 1)
    return 0.0


def _warn(partition: TopicPartition, first: int, stop: int, why: str) -> None:
    log.warning("%s: offsets %d to %d are lost and are skipped: %s", partition, first, stop - 1, why)
