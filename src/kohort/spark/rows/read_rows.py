"""The rows of offset ranges, read where Spark's tasks run: fetched, decoded and handed over in Arrow, piece by piece.

The law: the same ranges give the same rows, as often as they are read. What is held at any moment is one
answer that is being decoded and one that is on its way. It knows nothing of groups: who owns a range, and who
commits it, is the caller's matter.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing

import pyarrow as pa

from kohort.client.cluster.list_offsets import READ_COMMITTED, READ_UNCOMMITTED
from kohort.client.config_file import reach
from kohort.client.consumer.range_reader import read_ranges
from kohort.client.decode.arrow_decoder import Decoder, default_decoder, iter_arrow
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.rows.arrow_columns import with_place
from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.rounds import OffsetRange

log = logging.getLogger(__name__)

_UNPACKED_BYTES = 4 << 20
"""Bytes of unpacked records after which a batch of rows ends: what was fetched may unpack to many times its size."""


_PLAIN_ROWS = 20_000
"""Rows of a process that are decoded in plain Python: loading the compiled decoder takes longer than these."""


class Decoders:
    """Which decoder a process takes. Spark starts new ones for the first tasks of an application."""

    def __init__(self) -> None:
        self._rows = 0

    def for_rows(self, rows: int) -> Decoder:
        """Return the decoder of so many rows more."""
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

    The columns are `columns.arrow_schema(settings.include_headers)`, exactly. Raises CorruptBatch, and KafkaError
    where a range is no longer there to be read, or, by `topic_ids`, its topic is another one.
    """
    with closing(read_rows_by_range(settings, ranges, topic_ids)) as found:
        for _, rows in found:
            yield rows


def read_rows_by_range(
    settings: ReadSettings, ranges: Iterable[OffsetRange], topic_ids: Mapping[str, str] | None = None
) -> Generator[tuple[OffsetRange, pa.RecordBatch]]:
    """Yield what `read_rows` does, with the range that the rows are of; a partition is in one range."""
    ranges = list(ranges)
    wanted = {each.partition: each for each in ranges}
    assert len(wanted) == len(ranges), "a partition is in one range"
    decoder = _decoders.for_rows(sum(each.size for each in ranges))
    secured = reach(settings.properties)
    fetched = read_ranges(
        settings.bootstrap_servers,
        [(each.partition, each.start, each.stop) for each in ranges],
        settings.fetch_bytes,
        client_id=settings.client_id,
        timeout_ms=settings.timeout_ms,
        tls=secured.get("tls"),
        sasl=secured.get("sasl"),
        isolation=READ_COMMITTED if settings.isolation == "read_committed" else READ_UNCOMMITTED,
        rack=settings.client_rack,
        topic_ids=topic_ids,
        lost=None if settings.fail_on_data_loss else _warn,
    )
    try:
        for partition, buffer, asked_for in fetched:
            each = wanted[partition]
            for records in iter_arrow(
                buffer,
                *partition,
                first_offset=max(each.start, asked_for),
                stop_offset=each.stop,
                timestamp_type=True,
                headers=settings.include_headers,
                decoder=decoder,
                limit=max(_UNPACKED_BYTES, settings.fetch_bytes),
            ):
                if records.num_rows:
                    yield each, with_place(records, partition)
    except KafkaError as error:
        if error.code not in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_ID):
            raise
        raise KafkaError(error.code, f"{error.text}; failOnDataLoss=false goes on with what is left") from None
    finally:
        fetched.close()


def _warn(partition: TopicPartition, first: int, stop: int, why: str) -> None:
    log.warning("offsets %d to %d of %s are lost, and are left out: %s", first, stop - 1, partition, why)
