"""What a produced batch must be before it enters a log: Kafka's checks by header and CRC, of keys where need be."""

from __future__ import annotations

from kohort.log.partition_log import Appended
from kohort.log.segments import PIECE_RECORDS, PIECE_STEPS
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import Partition
from kohort.wire.codec import Buffer
from kohort.wire.compression import Compression
from kohort.wire.record_batches import BatchHeader, TimestampType, check_batch, read_header, sound_pieces

MOST_KEYED = 100_000
"""Records in one batch of a compacted topic: the cleaner decodes a batch at once."""


def append_produced(partition: Partition, records: Buffer | None, now_ms: int, *, allows_zstd: bool) -> Steps[Appended]:
    """Check in steps what a client produced, and append it. Raises KafkaError with Kafka's code, and StorageError.

    A batch that an idempotent producer repeats is not appended again: the answer names the first one's offset.
    """
    header = _one_batch(records)
    assert records is not None
    config = partition.log.config
    if len(records) > config.max_message_bytes:
        text = f"The batch of {len(records)} bytes is larger than max.message.bytes ({config.max_message_bytes})."
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
    if len(records) > config.segment_bytes:
        text = f"The batch of {len(records)} bytes is larger than segment.bytes ({config.segment_bytes})."
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text)
    check_batch(records)
    _check_shape(header, allows_zstd)
    if config.message_timestamp_type == "CreateTime":
        _check_timestamps(partition, header, now_ms)
    if config.compacts:
        yield from _check_keys(partition, header, records)
    if header.producer_id >= 0:
        duplicate = partition.log.producers.check(header)
        if duplicate is not None:
            start = partition.log.log_start_offset
            return Appended(*duplicate, start)
    return partition.append([records], now_ms)


def _one_batch(records: Buffer | None) -> BatchHeader:
    if not records:
        text = "Produce requests must have exactly one record batch per partition."
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    header = read_header(records)
    if header.size < len(records):
        text = "Produce requests are only allowed to contain exactly one record batch per partition."
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    return header


def _check_shape(header: BatchHeader, allows_zstd: bool) -> None:
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records.")
    if header.is_transactional:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Transactions are not supported by this broker.")
    if header.record_count <= 0 or header.last_offset_delta + 1 != header.record_count:
        text = f"The batch claims {header.record_count} records in {header.last_offset_delta + 1} offsets."
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    if header.compression is Compression.ZSTD and not allows_zstd:
        text = "Produce requests below version 7 may not carry ZStandard."
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise KafkaError(ErrorCode.INVALID_RECORD, "An idempotent batch must have a sequence and a producer epoch.")


def _check_keys(partition: Partition, header: BatchHeader, records: Buffer) -> Steps[None]:
    if header.record_count > MOST_KEYED:
        text = f"A batch of {header.record_count} records; a compacted topic takes {MOST_KEYED} in one."
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    for rows in sound_pieces(header, records, PIECE_RECORDS):
        if any(key is None for _, _, key, _, _ in rows):
            text = f"Compacted topic cannot accept message without key in topic partition {partition.directory}."
            raise KafkaError(ErrorCode.INVALID_RECORD, text)
        yield PIECE_STEPS


def _check_timestamps(partition: Partition, header: BatchHeader, now_ms: int) -> None:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "A producer may not set the broker's timestamp type.")
    ahead_ms = header.max_timestamp - now_ms
    if ahead_ms > partition.max_ahead_ms:
        text = f"A timestamp is {ahead_ms} ms ahead of the broker's clock; message.timestamp.after.max.ms forbids it."
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)
    behind_ms = now_ms - header.base_timestamp
    if header.base_timestamp >= 0 and behind_ms > partition.max_behind_ms:
        text = f"A timestamp is {behind_ms} ms behind the broker's clock; message.timestamp.before.max.ms forbids it."
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)
