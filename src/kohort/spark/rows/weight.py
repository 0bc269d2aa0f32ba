"""How many bytes an offset of a partition takes in the log, judged by what one small Fetch brings."""

from __future__ import annotations

from contextlib import closing

from kohort.client.config_file import reach
from kohort.client.consumer.range_reader import read_ranges
from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.rounds import OffsetRange
from kohort.wire.record_batches import iter_batches

SAMPLE_BYTES = 64 << 10


def bytes_per_offset(settings: ReadSettings, sample: OffsetRange) -> float:
    """Return the bytes per offset at the beginning of a range, as fetched: compressed where batches are.

    Raises KafkaError where the range cannot be read.
    """
    secured = reach(settings.properties)
    fetched = read_ranges(
        settings.bootstrap_servers,
        [(sample.partition, sample.start, sample.stop)],
        SAMPLE_BYTES,
        client_id=settings.client_id,
        tls=secured.get("tls"),
        sasl=secured.get("sasl"),
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
