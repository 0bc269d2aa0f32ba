"""The rows of offset ranges, read where Spark's tasks run: fetched, decoded and handed over in Arrow, piece by piece.

The law: the same ranges give the same rows, as often as they are read. What is held at any moment is one
answer that is being decoded and one that is on its way. It knows nothing of groups: who owns a range, and who
commits it, is the caller's matter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from kohort.client.config_file import reach
from kohort.client.decode_arrow import iter_arrow
from kohort.client.range_reader import read_ranges
from kohort.spark.columns import with_place
from kohort.spark.rounds import OffsetRange

log = logging.getLogger(__name__)

Isolation = Literal["read_uncommitted", "read_committed"]

FETCH_BYTES = 1 << 20
"""Bytes per fetch: the decoder is fastest on chunks that fit the processor's cache."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How ranges are read, as plain values, so that they travel to executors.

    `properties` are the security settings in Kafka's names (`security.protocol`, `sasl.…`, `ssl.…`). Without
    `fail_on_data_loss`, offsets that are gone are skipped with a warning, as Spark's own source does.
    """

    bootstrap_servers: str
    fetch_bytes: int = FETCH_BYTES
    isolation: Isolation = "read_uncommitted"
    include_headers: bool = False
    fail_on_data_loss: bool = True
    client_id: str = "kohort"
    client_rack: str = ""
    timeout_ms: int = 60_000
    properties: Mapping[str, str] = field(default_factory=dict)


def read_rows(settings: ReadSettings, ranges: Iterable[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ranges, one range after the other; each batch has rows of one partition, in order of offsets.

    The columns are `columns.arrow_schema(settings.include_headers)`, exactly. Raises CorruptBatch, and KafkaError
    where a range is no longer there to be read.
    """
    for _, rows in read_rows_by_range(settings, ranges):
        yield rows


def read_rows_by_range(
    settings: ReadSettings, ranges: Iterable[OffsetRange]
) -> Iterator[tuple[OffsetRange, pa.RecordBatch]]:
    """Yield what `read_rows` does, with the range that the rows are of; a partition is in one range."""
    ranges = list(ranges)
    wanted = {each.partition: each for each in ranges}
    assert len(wanted) == len(ranges), "a partition is in one range"
    asked = [(each.partition, each.start, each.stop) for each in ranges]
    secured = reach(settings.properties)
    for partition, buffer, _ in read_ranges(
        settings.bootstrap_servers,
        asked,
        settings.fetch_bytes,
        client_id=settings.client_id,
        timeout_ms=settings.timeout_ms,
        tls=secured.get("tls"),
        sasl=secured.get("sasl"),
    ):
        each = wanted[partition]
        for records in iter_arrow(
            buffer, *partition, first_offset=each.start, stop_offset=each.stop, timestamp_type=True
        ):
            if records.num_rows:
                yield each, with_place(records, partition)
