"""A producer's batches, given their place in a log: offsets, leader epoch and, where asked, the broker's time.

Nothing is copied: the patched first bytes of each batch and a view of the rest go to the disk side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from kohort.log.log_config import LogConfig
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.record_batches import BatchHeader, Buffer, read_header, stamp_append_time

_PATCHED = Struct(">qii")  # base offset, batch length, leader epoch: none is under the CRC
_PATCHED_BYTES = 16
_new_tuple = tuple.__new__  # BatchHeader(...) and _replace cost three times as much


def place(
    batches: Sequence[Buffer], offset: int, leader_epoch: int, config: LogConfig, now_ms: int
) -> tuple[list[Buffer], list[BatchHeader], int]:
    """Return what to write, the headers as they will lie in the log, and the size of it all.

    Raises KafkaError MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_RECORD, and ValueError without batches.
    """
    is_stamped = config.message_timestamp_type == "LogAppendTime"
    size = 0
    buffers: list[Buffer] = []
    headers: list[BatchHeader] = []
    for batch in batches:
        if is_stamped:
            batch = stamp_append_time(batch, now_ms)
        header = read_header(batch)
        if len(batch) > config.max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {len(batch)} bytes, max.message.bytes is {config.max_message_bytes}",
            )
        count, span = header[12], header[6] + 1
        if header[1] + 12 != len(batch) or count != span or count < 1:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records in {span} offsets and {len(batch)} bytes")
        buffers += (_PATCHED.pack(offset, header[1], leader_epoch), memoryview(batch)[_PATCHED_BYTES:])
        headers.append(_new_tuple(BatchHeader, (offset, header[1], leader_epoch, *header[3:])))
        offset += count
        size += len(batch)
    if not headers:
        raise ValueError("an append has at least one batch")
    if size > config.segment_bytes:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes, segment.bytes is {config.segment_bytes}")
    return buffers, headers, size
