"""The interpreter of Avro programs, compiled by numba: records in, the buffers of Arrow columns out.

One loop over records and instructions. A record that breaks a rule is taken back and becomes a row of nulls with the
number of its fault; nothing else of the batch is affected. Every read is compared with the end of its record, and a
list is read only as far as the bytes that are left suffice for its items, so that no count makes it allocate. When a
buffer is full the loop takes back the record and returns, and continues with a larger one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy

from kohort.client.decode.numba_bytes import (
    bytes_at,
    compiled,
    doubles_at,
    ends_at,
    floats_at,
    is_utf8,
    numbers_at,
    varint,
)
from kohort.spark.schemas.avro_columns import LIST, STRUCT, TEXT
from kohort.spark.schemas.avro_program import (
    BOOL,
    BYTES,
    CONST,
    CONST_BYTES,
    DECIMAL_BYTES,
    DECIMAL_FIXED,
    EIGHT,
    ENUM,
    FAIL,
    FIXED,
    FLOAT_TO_DOUBLE,
    FOUR,
    INT,
    JUMP,
    LONG,
    NEXT,
    NULL,
    SCALED,
    SKIP,
    SKIP_BYTES,
    TO_DOUBLE,
    UNION,
    WIDTH,
)

np: Any = numpy

CODE, TABLES, CONSTANTS, STATE, SLOTS, SOURCE, STARTS, ROWS, FAULTS_OF, PLACES, COLUMNS, LISTS, PREFIX, COUNT = range(
    14
)
"""What the table of a batch has: ten addresses, three sizes, and how many records there are."""

VALUES, VALID, DATA, ROOM, DATA_ROOM, LENGTH, DATA_LENGTH, STORE, VALUE_WIDTH, PARENT, STATE_WIDTH = range(11)
"""What the table of columns has of each: three addresses, two sizes, two lengths, and what never changes."""

CUT, VARINT, INT_RANGE, BRANCH, UTF8, SIZE, LEFT_OVER, SYMBOL, DIGITS, TIME_RANGE, ITEMS, BOOL_RANGE, GIBIBYTES = range(
    1, 14
)
FAULTS: Final = {
    CUT: "the bytes end in the middle of a value",
    VARINT: "a varint is cut off or too long",
    INT_RANGE: "an int is outside of 32 bits",
    BRANCH: "a union has no such branch",
    UTF8: "a string is not UTF-8",
    SIZE: "a length is negative, or more than the bytes that are left",
    LEFT_OVER: "bytes are left over behind the value",
    SYMBOL: "the reader's enum has no such symbol, and no default",
    DIGITS: "a decimal has more digits than its precision",
    TIME_RANGE: "a time is outside of the range of microseconds",
    ITEMS: "a list claims more items than its bytes suffice for",
    BOOL_RANGE: "a boolean is neither 0 nor 1",
    GIBIBYTES: "it has more than 2 GiB of lists",
}
UNREADABLE: Final = 64
"""Faults from here on are `AvroProgram.failures`; a fault has eight bits, so that many of them share the last."""

MOST_EMPTY_ITEMS: Final = 1 << 16
"""Items without bytes, such as null, that the lists of one record have at most."""

_LARGEST = (1 << 31) - 1
_LARGEST_LONG = (1 << 63) - 1


@compiled(inline="always")
def _decimal(source: Any, at: int, size: int, target: Any, low_limit: int, high_limit: int) -> bool:
    """Write a big-endian number of any length as 128 bits; return False if it is too large."""
    sign = np.uint64(0)
    if size > 0 and source[at] & 0x80:
        sign = ~np.uint64(0)
    first = at
    for index in range(size - 16):
        if source[at + index] != sign & np.uint64(0xFF):
            return False
        first = at + index + 1
    low = high = sign
    for index in range(first, at + size):
        high = (high << np.uint64(8)) | (low >> np.uint64(56))
        low = (low << np.uint64(8)) | np.uint64(source[index])
    if (high ^ sign) >> np.uint64(63):
        return False
    target[0] = np.int64(low)
    target[1] = np.int64(high)
    if sign:
        low = ~low + np.uint64(1)
        high = ~high + np.uint64(low == 0)
    limit = np.uint64(high_limit)
    return bool(high < limit or (high == limit and low < np.uint64(low_limit)))


@compiled()
def _take_back(state: Any, columns: int, rows: int) -> None:
    """Give every column the length that it had when there were so many rows: lists know those of what is in them."""
    for number in range(columns):
        base = number * STATE_WIDTH
        parent = state[base + PARENT]
        length = rows
        if parent >= 0:
            above = parent * STATE_WIDTH
            length = ends_at(state[above + VALUES])[state[above + LENGTH]]
        state[base + LENGTH] = length
        if state[base + STORE] == TEXT:
            state[base + DATA_LENGTH] = ends_at(state[base + VALUES])[length]


@compiled(inline="always")
def _append_null(state: Any, base: int) -> None:
    """Add null to a column, which has room for it."""
    length = state[base + LENGTH]
    bytes_at(state[base + VALID])[length] = 0
    store = state[base + STORE]
    if store == TEXT or store == LIST:
        ends = ends_at(state[base + VALUES])
        ends[length + 1] = ends[length]
    elif store != STRUCT:
        width = state[base + VALUE_WIDTH]
        values = bytes_at(state[base + VALUES])
        for index in range(length * width, (length + 1) * width):
            values[index] = 0
    state[base + LENGTH] = length + 1


@compiled()
def _null_row(state: Any, columns: int) -> None:
    for number in range(columns):
        base = number * STATE_WIDTH
        if state[base + PARENT] < 0:
            _append_null(state, base)


@compiled()
def _list_items(source: Any, at: int, end: int, least: int, slots: Any) -> tuple[int, int, int]:
    """Read the head of a list's block; return its items, the position behind it, and a fault.

    `least` are the bytes of an item at least; the first of the slots counts the items without bytes.
    """
    number, at = varint(source, at, end)
    if at < 0:
        return 0, at, VARINT
    if number < 0:
        size, at = varint(source, at, end)
        if at < 0:
            return 0, at, VARINT
        if size < 0 or size > end - at:
            return 0, at, SIZE
        number = -number
    if number < 0 or (least > 0 and number > (end - at) // least):
        return 0, at, ITEMS
    if least == 0:
        if number > MOST_EMPTY_ITEMS or slots[0] + number > MOST_EMPTY_ITEMS:
            return 0, at, ITEMS
        slots[0] += number
    return number, at, 0


@compiled()
def _flow(
    code: Any, here: int, tables: Any, slots: Any, source: Any, at: int, end: int, number: int
) -> tuple[int, int, int]:
    """Carry out an instruction that adds no value; return the next one's place, the position and a fault.

    The place is inverted where a list has ended, whose end is then added to its column.
    """
    kind, first, second = code[here], code[here + 2], code[here + 3]
    following, fault = here // WIDTH + 1, 0
    if kind == UNION:
        if number < 0 or number >= second:
            return following, at, BRANCH
        following = tables[first + number]
    elif kind == JUMP:
        following = first
    elif kind == SKIP_BYTES or kind == SKIP:
        size = first if kind == SKIP else number
        if size < 0 or size > end - at:
            return following, at, SIZE
        at += size
    elif kind == FAIL:
        fault = UNREADABLE + min(first, 255 - UNREADABLE)
    elif kind == NEXT:
        if slots[first] == 0:
            slots[first], at, fault = _list_items(source, at, end, code[here + 4], slots)
            if fault != 0:
                return following, at, fault
            if slots[first] == 0:
                return ~second if code[here + 1] >= 0 else second, at, 0
        slots[first] -= 1
    return following, at, fault


@compiled()
def _add_whole(kind: int, number: int, first: int, second: int, tables: Any, address: int, length: int) -> int:
    """Add what a varint stands for; return a fault."""
    if kind == LONG:
        if first == 1 and (number < -(1 << 31) or number >= 1 << 31):
            return INT_RANGE
        numbers_at(address)[length] = number
    elif kind == INT:
        if number < -(1 << 31) or number >= 1 << 31:
            return INT_RANGE
        ends_at(address)[length] = np.int32(number)
    elif kind == SCALED:
        if number > _LARGEST_LONG // first or number < -(_LARGEST_LONG // first):
            return TIME_RANGE
        numbers_at(address)[length] = number * first
    elif kind == ENUM:
        if number < 0 or number >= second or tables[first + number] < 0:
            return SYMBOL
        ends_at(address)[length] = np.int32(tables[first + number])
    else:
        if first == 1 and (number < -(1 << 31) or number >= 1 << 31):
            return INT_RANGE
        if kind == TO_DOUBLE:
            doubles_at(address)[length] = np.float64(number)
        else:
            floats_at(address)[length] = np.float32(number)
    return 0


@compiled()
def _add_plain(kind: int, source_at: int, at: int, end: int, address: int, length: int) -> tuple[int, int]:
    """Add a value of one, four or eight bytes; return the position behind it, and a fault."""
    size = 8 if kind == EIGHT else 1 if kind == BOOL else 4
    if size > end - at:
        return at, CUT
    if kind == FLOAT_TO_DOUBLE:
        doubles_at(address)[length] = floats_at(source_at + at)[0]
    elif kind == BOOL:
        value = bytes_at(source_at + at)[0]
        if value > 1:
            return at, BOOL_RANGE
        bytes_at(address)[length] = value
    elif kind == FOUR:
        ends_at(address)[length] = ends_at(source_at + at)[0]
    else:
        numbers_at(address)[length] = numbers_at(source_at + at)[0]
    return at + size, 0


@compiled()
def _add_bytes(
    state: Any, base: int, source: Any, at: int, number: int, end: int, is_text: bool
) -> tuple[int, int, int]:
    """Add bytes; return the position behind them, a fault, and for how many of them there is no room."""
    if number < 0 or number > end - at:
        return at, SIZE, 0
    used, length = state[base + DATA_LENGTH], state[base + LENGTH]
    if used + number > state[base + DATA_ROOM]:
        return at, GIBIBYTES if used + number > _LARGEST else 0, number
    target = bytes_at(state[base + DATA])
    seen = np.uint8(0)
    for index in range(number):
        byte = source[at + index]
        seen |= byte
        target[used + index] = byte
    if is_text and seen & 0x80 and not is_utf8(source, at, at + number):
        return at, UTF8, 0
    state[base + DATA_LENGTH] = used + number
    ends_at(state[base + VALUES])[length + 1] = used + number
    return at + number, 0, 0


@compiled()
def _add_given(kind: int, code: Any, here: int, state: Any, base: int, address: int, length: int) -> int:
    """Add a constant, or the end of a list; a struct has no values of its own. Return a fault."""
    if kind == CONST:
        width = state[base + VALUE_WIDTH]
        if width == 16:
            numbers_at(address)[2 * length] = code[here + 2]
            numbers_at(address)[2 * length + 1] = code[here + 3]
        elif width == 8:
            numbers_at(address)[length] = code[here + 2]
        elif width == 4:
            ends_at(address)[length] = np.int32(code[here + 2])
        else:
            bytes_at(address)[length] = np.uint8(code[here + 2])
    elif state[base + STORE] == LIST:
        child = (code[here + 5] if kind == NEXT else code[here + 2]) * STATE_WIDTH
        if state[child + LENGTH] > _LARGEST:
            return GIBIBYTES
        ends_at(address)[length + 1] = np.int32(state[child + LENGTH])
    return 0


@compiled()
def _decode_record(
    code: Any, tables: Any, constants: Any, state: Any, slots: Any, source_at: int, at: int, end: int
) -> tuple[int, int, int, int]:
    """Run the program over one record.

    Returns its fault and the place of the instruction that found it, and the column that has no room for how many
    bytes, or for an item (-1); without a fault, a column of -1 means that the record is added.
    """
    source = bytes_at(source_at)
    place, stop = np.int64(0), tables[0]
    slots[0] = 0
    while place != stop:
        here, number, fault, more = place * WIDTH, np.int64(0), np.int64(0), np.int64(0)
        kind, column, first, second = code[here], code[here + 1], code[here + 2], code[here + 3]
        if kind <= DECIMAL_BYTES:
            number, at = varint(source, at, end)
            if at < 0:
                return VARINT, place, -1, 0
        if kind <= UNION or kind >= NEXT:
            following, at, fault = _flow(code, here, tables, slots, source, at, end, number)
            if fault != 0:
                return fault, place, -1, 0
            place = following
            if place >= 0:
                continue
            place = ~place - 1
        base = column * STATE_WIDTH
        length, address = state[base + LENGTH], state[base + VALUES]
        if length >= state[base + ROOM]:
            return 0, place, column, -1
        place += 1
        if kind == NULL:
            _append_null(state, base)
            continue
        if kind == BYTES:
            at, fault, more = _add_bytes(state, base, source, at, number, end, first == 1)
        elif kind <= ENUM:
            fault = _add_whole(kind, number, first, second, tables, address, length)
        elif kind == FIXED:
            at, fault, more = _add_bytes(state, base, source, at, first, end, False)
        elif kind == DECIMAL_BYTES or kind == DECIMAL_FIXED:
            size = first if kind == DECIMAL_FIXED else number
            if size < 0 or size > end - at:
                return SIZE, place - 1, -1, 0
            target = numbers_at(address + length * 16)
            if not _decimal(source, at, size, target, tables[second], tables[second + 1]):
                fault = DIGITS
            at += size
        elif kind <= FLOAT_TO_DOUBLE:
            at, fault = _add_plain(kind, source_at, at, end, address, length)
        elif kind == CONST_BYTES:
            _, fault, more = _add_bytes(state, base, constants, first, second, first + second, False)
        else:
            fault = _add_given(kind, code, here, state, base, address, length)
        if fault != 0 or more > 0:
            return fault, place - 1, -1 if fault != 0 else column, more
        bytes_at(state[base + VALID])[length] = 1
        state[base + LENGTH] = length + 1
    return 0 if at == end else LEFT_OVER, place, -1, 0


@compiled()
def decode_records(batch_at: int, first: int) -> tuple[int, int, int]:
    """Decode records of a batch from the `first` on; each begins `PREFIX` bytes behind its start.

    Returns how many are done, and a column that needs room for how many bytes or items more, or -1. Up to there,
    `faults` and `places` have each record's fault and the instruction that found it.
    """
    batch = numbers_at(batch_at)
    code, tables, constants = numbers_at(batch[CODE]), numbers_at(batch[TABLES]), bytes_at(batch[CONSTANTS])
    state, slots, rows = numbers_at(batch[STATE]), numbers_at(batch[SLOTS]), numbers_at(batch[ROWS])
    starts, faults, places = ends_at(batch[STARTS]), bytes_at(batch[FAULTS_OF]), ends_at(batch[PLACES])
    for done in range(first, batch[COUNT]):
        row = rows[done]
        at, end = np.int64(starts[row]) + batch[PREFIX], np.int64(starts[row + 1])
        fault, place, column, more = _decode_record(code, tables, constants, state, slots, batch[SOURCE], at, end)
        if fault == 0 and column < 0:
            continue
        _take_back(state, batch[COLUMNS], done)
        for index in range(batch[LISTS]):
            slots[index] = 0
        if column >= 0:
            return done, column, more
        faults[done] = np.uint8(fault)
        places[done] = np.int32(place)
        _null_row(state, batch[COLUMNS])
    return batch[COUNT], -1, 0
