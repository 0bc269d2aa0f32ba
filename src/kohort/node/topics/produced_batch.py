"""What the broker checks of a batch that a client produces, with the errors of Kafka's LogValidator.

The header is always checked, at constant cost besides the CRC. The records are walked through, in steps, on compacted
topics and where `kohort.produce.check.records` is on; elsewhere they stay opaque bytes.
"""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import Partition
from kohort.wire.codec import Buffer
from kohort.wire.compression import Compression, most_unpacked
from kohort.wire.record_batches import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    TimestampType,
    check_crc,
    read_header,
)
from kohort.wire.record_walk import SMALLEST_RECORD, check_records

MOST_KEYED = 100_000
"""Records, and their headers, in one batch of a compacted topic: the cleaner decodes a batch at once."""
MOST_KEYED_BYTES = 16 << 20
"""What they may have without compression."""


def one_batch(records: Buffer | None) -> BatchHeader:
    """Return the header of the one batch that was produced to a partition. Raises KafkaError."""
    if not records:
        text = "Produce requests must have exactly one record batch per partition."
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    header = read_header(records)
    if header.size < len(records):
        text = "Produce requests are only allowed to contain exactly one record batch per partition."
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    return header


def check_header(
    partition: Partition,
    header: BatchHeader,
    records: Buffer,
    now_ms: int,
    *,
    allows_zstd: bool,
    is_transactional: bool,
) -> None:
    """Raise KafkaError unless a batch is whole and its header states what can be. `is_transactional`: it may be."""
    config = partition.log.config
    if len(records) > config.max_message_bytes:
        text = f"The batch of {len(records)} bytes is larger than max.message.bytes ({config.max_message_bytes})."
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
    if len(records) > config.segment_bytes:
        text = f"The batch of {len(records)} bytes is larger than segment.bytes ({config.segment_bytes})."
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text)
    # First of all: what changed on the way is sent again after CORRUPT_MESSAGE, but not after INVALID_RECORD.
    check_crc(header, records)
    _check_counts(partition, header)
    if header.attributes:
        _check_attributes(header, allows_zstd, is_transactional=is_transactional)
    if config.message_timestamp_type == "CreateTime":
        _check_timestamps(partition, header, now_ms)


def _check_counts(partition: Partition, header: BatchHeader) -> None:
    count = header.record_count
    if header.base_offset:
        text = f"The base offset of a produced batch is {header.base_offset}, and should be 0."
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    if count <= 0 or header.last_offset_delta + 1 != count:
        text = f"The batch claims {count} records in {header.last_offset_delta + 1} offsets."
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    # A record takes seven bytes at least: thus a batch cannot use up offsets, and segments, that it has no records for.
    size = header.size - HEADER_SIZE
    if count * SMALLEST_RECORD > size:
        most = most_unpacked(header.compression, size, partition.max_unpacked_bytes) // SMALLEST_RECORD
        if count > most:
            text = f"The batch claims {count} records in {size} bytes, which hold {most} at most."
            raise KafkaError(ErrorCode.INVALID_RECORD, text)
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise KafkaError(ErrorCode.INVALID_RECORD, "An idempotent batch must have a sequence and a producer epoch.")


def _check_attributes(header: BatchHeader, allows_zstd: bool, *, is_transactional: bool) -> None:
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records.")
    if header.delete_horizon_ms is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Only a log cleaner sets the delete horizon of a batch.")
    if header.is_transactional and not is_transactional:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A transactional batch needs the transactional id in its request.")
    if header.is_transactional and header.producer_id < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A transactional batch must have a producer id.")
    if header.compression is Compression.ZSTD and not allows_zstd:
        text = "Produce requests below version 7 may not carry ZStandard."
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)


def _check_timestamps(partition: Partition, header: BatchHeader, now_ms: int) -> None:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "A producer may not set the broker's timestamp type.")
    first, largest = header.base_timestamp, header.max_timestamp
    # Which is the larger is not checked: some clients send the last record's timestamp as the largest, or none.
    if first < NO_TIMESTAMP or largest < NO_TIMESTAMP:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"The batch has the timestamps {first} and {largest}.")
    ahead_ms = max(first, largest) - now_ms
    if ahead_ms > partition.max_ahead_ms:
        text = f"A timestamp is {ahead_ms} ms ahead of the broker's clock; message.timestamp.after.max.ms forbids it."
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)
    behind_ms = now_ms - first
    if first >= 0 and behind_ms > partition.max_behind_ms:
        text = f"A timestamp is {behind_ms} ms behind the broker's clock; message.timestamp.before.max.ms forbids it."
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)


def check_content(partition: Partition, header: BatchHeader, records: Buffer) -> Steps[None]:
    """Walk through the records of a batch whose header is right. Raises KafkaError."""
    is_compacted = partition.log.config.compacts
    most_headers, most_bytes = None, partition.max_unpacked_bytes
    if is_compacted:
        if header.record_count > MOST_KEYED:
            text = f"A batch of {header.record_count} records; a compacted topic takes {MOST_KEYED} in one."
            raise KafkaError(ErrorCode.INVALID_RECORD, text)
        most_headers, most_bytes = MOST_KEYED, min(most_bytes, max(MOST_KEYED_BYTES, len(records)))
    try:
        walk = check_records(header, records, most_bytes, most_headers)
        have_keys = yield from partition.unpacking.run(walk) if header.compression else walk
    except CorruptBatch as error:
        text = f"The batch does not hold the records that it claims: {error.text}."
        raise KafkaError(ErrorCode.INVALID_RECORD, text) from error
    if is_compacted and not have_keys:
        text = f"Compacted topic cannot accept message without key in topic partition {partition.directory}."
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
