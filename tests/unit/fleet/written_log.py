"""Logs of `__consumer_offsets` for the tests: written by the wire's own encoder, read by the fleet's decoder."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from kohort.fleet.decode.decoded_rows import Place, RowReader
from kohort.wire.codec import encode
from kohort.wire.message import Message
from kohort.wire.messages import OffsetCommitValue
from kohort.wire.record_batches import Record, encode_batch

NOW_MS = 1_790_000_000_000
COMMIT_VALUE = b"\x00\x04" + encode(OffsetCommitValue(offset=5, commit_timestamp=NOW_MS), 4)


def short(number: int) -> bytes:
    return struct.pack(">h", number)


def name(text: str | bytes) -> bytes:
    content = text.encode() if isinstance(text, str) else text
    return short(len(content)) + content


def commit_key(group: str | bytes, topic: str | bytes, partition: int, kind: int = 1) -> bytes:
    return short(kind) + name(group) + name(topic) + struct.pack(">i", partition)


def value_of(message: Message, version: int) -> bytes:
    return short(version) + encode(message, version)


def batch_of(pairs: Iterable[tuple[bytes | None, bytes | None]], base_offset: int = 0, **settings: Any) -> bytes:
    records = [Record(0, NOW_MS, key, value) for key, value in pairs]
    return encode_batch(records, base_offset=base_offset, **settings)


def read(content: bytes, wanted: tuple[int, int] = (0, 1 << 62)) -> list[dict[str, Any]]:
    """Return every row that the bytes of a file give."""
    reader = RowReader(Place("here", 7, "a.log"), wanted)
    batches = [*reader.read(content), *reader.finish()]
    table = pa.Table.from_batches(batches)
    table.validate(full=True)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def records_of(content: bytes, wanted: tuple[int, int] = (0, 1 << 62)) -> list[dict[str, Any]]:
    return [row for row in read(content, wanted) if row["reason"] is None and row["next_offset"] is None]


def quarantine_of(content: bytes) -> list[dict[str, Any]]:
    return [row for row in read(content) if row["reason"] is not None]


def end_of(content: bytes, wanted: tuple[int, int] = (0, 1 << 62)) -> int:
    (row,) = [row for row in read(content, wanted) if row["next_offset"] is not None]
    number: int = row["next_offset"]
    return number
