"""Records of `__consumer_offsets` as columns, compiled by numba: every key, and the value of every commit.

Commits are decoded completely. For all other records the columns have the key and the place of the value, which
`value_json` decodes. Input is untrusted: what does not fit its length is a fault of the record or, where the next
record cannot be found, of the batch. `FAULTS` explains their numbers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy

from kohort.client.decode import record_spans
from kohort.client.decode.numba_bytes import bytes_at, compiled, ends_at, numbers_at, record_frame
from kohort.client.decode.record_spans import NO_APPEND_TIME
from kohort.fleet.decode.batch_scanner import (
    APPEND_MS,
    ATTRIBUTES,
    BASE,
    BASE_MS,
    CONTROL,
    COUNT,
    DELTA,
    END,
    EPOCH,
    START,
    i16_at,
    i32_at,
    i64_at,
)
from kohort.fleet.decode.batch_scanner import PRODUCER as PRODUCER_OF_BATCH
from kohort.fleet.decode.batch_scanner import TRANSACTIONAL as TRANSACTIONAL_BIT
from kohort.fleet.load_check import NEWEST_TYPE, WITH_MEMBER

np: Any = numpy

_UNUSED = (9, 18)
_NEWEST_COMMIT: Final = 4
_MEMBER_BITS: Final = sum(1 << kind for kind in WITH_MEMBER)

TEXTS: Final = ("group", "member", "topic", "commit_metadata", "topic_id")
GROUP, MEMBER, TOPIC, METADATA, TOPIC_ID = range(5)
"""The text columns."""

MOST_FAULTS: Final = 4096
"""Faults stored per call; more are only counted."""

FAULT_FIELDS: Final = 5
"""The index of a batch, the record's offset or -1, the fault, and where the bytes in question begin and end."""

FAULTS: Final = {
    **record_spans.FAULTS,
    11: "its key has no record type",
    12: "the key ends in the middle of a name",
    13: "the key ends before its partition",
    14: "the value ends before its version",
    15: "the version of a commit's value is not known, 4 is the newest",
    16: "the value of a commit ends before its last field",
    17: "a commit without metadata, which may be empty but not null",
}
"""Up to 10 the rest of the batch is lost, from 11 on the one record."""


(
    OFFSET, AT_MS, TYPE, VERSION, TOMBSTONE, IS_COMMIT, PARTITION, COMMITTED, LEADER_EPOCH, COMMIT_MS, EXPIRE_MS,
    PRODUCER, PRODUCER_EPOCH, TRANSACTIONAL, VALUE_AT, VALUE_LENGTH, BATCH, ODD, PRESENT,
) = range(19)  # fmt: skip
"""The columns of `Room.numbers`. ODD and PRESENT have a bit for each text: non-ASCII, not null.
VERSION, LEADER_EPOCH, EXPIRE_MS and PRODUCER are -1 where there is none; VALUE_AT is of records that are no commits."""

NUMBERS: Final = 19
_ID_LETTERS: Final = 22


class Room:
    """Preallocated columns for the rows of some batches."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows, self.size = rows, size
        self.numbers = np.empty((NUMBERS, rows), np.int64)
        self.ends = np.zeros((len(TEXTS), rows + 1), np.int32)
        self.content = np.empty((len(TEXTS) - 1) * size + _ID_LETTERS * rows, np.uint8)
        self.faults = np.empty((MOST_FAULTS, FAULT_FIELDS), np.int64)

    @property
    def addresses(self) -> tuple[int, int, int, int]:
        """Return the addresses of the arrays."""
        each = (self.numbers, self.ends, self.content, self.faults)
        return tuple(array.ctypes.data for array in each)

    def text(self, which: int, rows: int) -> tuple[Any, Any]:
        """Return the ends and the bytes of a text column's first rows."""
        ends = self.ends[which, : rows + 1]
        start = which * self.size
        return ends, self.content[start : start + int(ends[rows])]


_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)


@compiled()
def _text(source: Any, at: int, length: int, into: Any, row: int, which: int) -> None:
    """Copy a text into its column; set its PRESENT bit, and its ODD bit where a byte is not ASCII."""
    rows, size, numbers, ends, content = into
    line = which * (rows + 1) + row
    used = np.int64(ends[line])
    begin = which * size + used
    seen = np.uint8(0)
    for index in range(length):
        byte = source[at + index]
        content[begin + index] = byte
        seen |= byte
    ends[line + 1] = used + length
    numbers[PRESENT * rows + row] |= 1 << which
    if seen > 127:
        numbers[ODD * rows + row] |= 1 << which


@compiled()
def _add_topic_id(source: Any, at: int, into: Any, row: int) -> None:
    """Write 16 bytes as Kafka shows an id: URL-safe base64 of 22 letters. All zeros are none."""
    rows, size, numbers, ends, content = into
    used = np.uint8(0)
    for index in range(16):
        used |= source[at + index]
    if used == 0 or numbers[PRESENT * rows + row] & 1 << TOPIC_ID:
        return
    line = TOPIC_ID * (rows + 1) + row
    to = TOPIC_ID * size + np.int64(ends[line])
    for _ in range(5):
        bits = np.int64(source[at]) << 16 | np.int64(source[at + 1]) << 8 | np.int64(source[at + 2])
        content[to] = _LETTERS[bits >> 18]
        content[to + 1] = _LETTERS[bits >> 12 & 63]
        content[to + 2] = _LETTERS[bits >> 6 & 63]
        content[to + 3] = _LETTERS[bits & 63]
        at += 3
        to += 4
    last = np.int64(source[at])
    content[to] = _LETTERS[last >> 2]
    content[to + 1] = _LETTERS[(last & 3) << 4]
    ends[line + 1] = ends[line] + _ID_LETTERS
    numbers[PRESENT * rows + row] |= 1 << TOPIC_ID


@compiled()
def _unsigned(source: Any, at: int, end: int) -> tuple[int, int]:
    """Return an unsigned varint of 32 bits and the position behind it, or -1."""
    number, shift = np.int64(0), np.int64(0)
    while at < end and shift < 35:
        byte = np.int64(source[at])
        number |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return number, at
        shift += 7
    return np.int64(0), np.int64(-1)


@compiled()
def _tags(source: Any, at: int, end: int, into: Any, row: int) -> int:
    """Read the tagged fields of a commit, of which one is the topic's id; return a fault or 0."""
    count, at = _unsigned(source, at, end)
    if at < 0:
        return 16
    for _ in range(count):
        tag, at = _unsigned(source, at, end)
        if at < 0:
            return 16
        size, at = _unsigned(source, at, end)
        if at < 0 or size > end - at:
            return 16
        if tag == 0:
            if size != 16:
                return 16
            _add_topic_id(source, at, into, row)
        at += size
    return 0


@compiled()
def _commit(source: Any, at: int, end: int, into: Any, row: int) -> int:
    """Read the value of a commit, of any version that was ever written; return a fault or 0."""
    rows, _, numbers, _, _ = into
    if end - at < 2:
        return 14
    version = i16_at(source, at)
    if version < 0 or version > _NEWEST_COMMIT:
        return 15
    at += 2
    if end - at < 14:
        return 16
    numbers[VERSION * rows + row] = version
    numbers[COMMITTED * rows + row] = i64_at(source, at)
    at += 8
    if version >= 3:
        numbers[LEADER_EPOCH * rows + row] = i32_at(source, at)
        at += 4
    if version == 4:
        length, at = _unsigned(source, at, end)
        length -= 1
        if at < 0:
            return 16
    else:
        length, at = i16_at(source, at), at + 2
    if length < 0:
        return 17
    if length > end - at - 8:
        return 16
    _text(source, at, length, into, row, METADATA)
    at += length
    numbers[COMMIT_MS * rows + row] = i64_at(source, at)
    at += 8
    if version == 1:
        if end - at < 8:
            return 16
        numbers[EXPIRE_MS * rows + row] = i64_at(source, at)
    return _tags(source, at, end, into, row) if version == 4 else 0


@compiled()
def _name(source: Any, at: int, end: int, into: Any, row: int, which: int) -> int:
    """Read a name with its length into a text column; return the position behind it, or -1."""
    if end - at < 2:
        return -1
    length = i16_at(source, at)
    if length < 0 or length > end - at - 2:
        return -1
    _text(source, at + 2, length, into, row, which)
    return at + 2 + length


@compiled()
def _key(source: Any, at: int, end: int, into: Any, row: int) -> int:
    """Read a key; return a fault or 0."""
    rows, _, numbers, _, _ = into
    if end - at < 2:
        return 11
    kind = i16_at(source, at)
    numbers[TYPE * rows + row] = kind
    if kind < 0 or kind > NEWEST_TYPE or kind == _UNUSED[0] or kind == _UNUSED[1]:
        return 0
    at = _name(source, at + 2, end, into, row, GROUP)
    if at < 0:
        return 12
    if kind > 1 and _MEMBER_BITS >> kind & 1 == 0:
        return 0
    at = _name(source, at, end, into, row, TOPIC if kind <= 1 else MEMBER)
    if at < 0:
        return 12
    if kind <= 1:
        if end - at < 4:
            return 13
        numbers[PARTITION * rows + row] = i32_at(source, at)
        numbers[IS_COMMIT * rows + row] = 1
    return 0


@compiled()
def _row(source: Any, key: Any, value: Any, into: Any, row: int) -> int:
    """Fill a row's columns from a record's key and value, each a position and a length; return a fault or 0."""
    rows, _, numbers, ends, _ = into
    for which in range(TOPIC_ID + 1):
        line = which * (rows + 1) + row
        ends[line + 1] = ends[line]
    for column in range(TYPE, PRODUCER):
        numbers[column * rows + row] = -1
    numbers[TOMBSTONE * rows + row] = value[1] < 0
    numbers[IS_COMMIT * rows + row] = 0
    numbers[VALUE_AT * rows + row] = value[0]
    numbers[VALUE_LENGTH * rows + row] = value[1]
    numbers[ODD * rows + row] = 0
    numbers[PRESENT * rows + row] = 0
    fault = _key(source, key[0], key[0] + max(key[1], 0), into, row)
    if fault or value[1] < 0:
        return fault
    if numbers[IS_COMMIT * rows + row]:
        return _commit(source, value[0], value[0] + value[1], into, row)
    if value[1] >= 2:
        numbers[VERSION * rows + row] = i16_at(source, value[0])
    return 0


@compiled()
def _decode(source_at: int, batches: Any, wanted: Any, addresses: Any, shape: Any) -> tuple[int, int]:
    """Decode as `decode` does, with addresses of all arrays."""
    first_offset, stop_offset = wanted
    source, faults = bytes_at(source_at), numbers_at(addresses[3])
    rows = shape[0]
    numbers = numbers_at(addresses[0])
    into = (rows, shape[1], numbers, ends_at(addresses[1]), bytes_at(addresses[2]))
    row, faulty = 0, 0
    for index in range(batches.shape[0]):
        attributes = batches[index, ATTRIBUTES]
        if attributes & CONTROL:
            continue
        at, end, fault, done = batches[index, START], batches[index, END], 0, 0
        append_ms, transactional = batches[index, APPEND_MS], attributes & TRANSACTIONAL_BIT != 0
        while done < batches[index, COUNT]:
            begun = at
            ms, delta, key_length, key_at, value_length, value_at, stop, fault = record_frame(
                source, at, end, batches[index, DELTA]
            )
            if fault:
                break
            at = stop
            done += 1
            offset = batches[index, BASE] + delta
            if offset < first_offset or offset >= stop_offset:
                continue
            wrong = _row(source, (key_at, key_length), (value_at, value_length), into, row)
            if wrong:
                _add_fault(faults, faulty, (index, offset, wrong, begun, stop))
                faulty += 1
                continue
            numbers[OFFSET * rows + row] = offset
            numbers[AT_MS * rows + row] = append_ms if append_ms != NO_APPEND_TIME else batches[index, BASE_MS] + ms
            numbers[PRODUCER * rows + row] = batches[index, PRODUCER_OF_BATCH] if transactional else -1
            numbers[PRODUCER_EPOCH * rows + row] = batches[index, EPOCH]
            numbers[TRANSACTIONAL * rows + row] = transactional
            numbers[BATCH * rows + row] = index
            row += 1
        if fault == 0 and at != end:
            fault = 8
        if fault:
            _add_fault(faults, faulty, (index, np.int64(-1), fault, at, end))
            faulty += 1
    return row, faulty


@compiled()
def _add_fault(faults: Any, row: int, fault: Any) -> None:
    if row >= MOST_FAULTS:
        return
    for column in range(FAULT_FIELDS):
        faults[row * FAULT_FIELDS + column] = fault[column]


def decode(source: Any, batches: Any, wanted: tuple[int, int]) -> tuple[Room, int, int]:
    """Decode the records of some batches; return the room that was filled, the number of rows and that of faults.

    `wanted` is the range of requested offsets (first, end). Records of control batches are skipped.
    """
    rows = int(batches[:, COUNT].sum()) + len(batches)  # a batch may have a fault of its own
    room = Room(rows, int((batches[:, END] - batches[:, START]).sum()))
    found, faulty = _decode(source.ctypes.data, batches, wanted, room.addresses, (rows, room.size))
    return room, int(found), int(faulty)
