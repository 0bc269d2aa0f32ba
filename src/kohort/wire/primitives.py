"""What compiled codecs call: lengths as varints, runs of numbers, and the ways a message can be malformed.

A compact length is an unsigned varint of the length plus one; 0 is null. A varint has at most five bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NoReturn


class MalformedMessage(ValueError):
    """Bytes that are not the message they should be: truncated, oversized, a null or a text where none may be."""


class TooManyEntries(MalformedMessage):
    """The lists of a message have more entries than its reader allows. `count` is how many are known of so far."""

    def __init__(self, limit: int, count: int) -> None:
        self.limit = limit
        self.count = count
        super().__init__(f"its lists have {count} entries or more, the limit is {limit}")


class UnencodableMessage(ValueError):
    """A message whose fields do not fit their types in the version asked for."""


class UnsupportedVersion(ValueError):
    """A version outside of what the message has."""


SHORT = 16383
"""Lengths below this have their compact form in `COMPACT`."""

MOST_TEXT = 32_767
"""Bytes of a text, in each version: Kafka refuses a longer one where a flexible version could have it, too."""

CUT_TEXTS = frozenset({"error_message", "assignment_error"})
"""Fields for sentences, which are put together from texts of any length: they are cut so that they can be sent."""

MOST_SENTENCE = MOST_TEXT // 4
"""Characters of one of these; a character has at most four bytes."""

MOST_TAGS = 1000
"""Tagged fields of one struct that are skipped; no version of any message has a hundredth of that."""

SHORT_RUN = 64
"""Arrays of numbers shorter than this have a packer and an unpacker made for their length."""


def varint(number: int) -> bytes:
    """Return an unsigned varint."""
    octets = bytearray()
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    octets.append(number)
    return bytes(octets)


_LAST = [bytes((octet,)) for octet in range(128)]
_FIRST = [bytes((octet | 128,)) for octet in range(128)]
# Varints of one byte, then of two, put together ten times as fast as one by one: every start waits for it.
COMPACT = (*_LAST[1:], *[first + last for last in _LAST[1:] for first in _FIRST])


def compact(length: int) -> bytes:
    """Return a length, of any size, in its compact form."""
    return varint(length + 1)


def read_varint(buffer: Any, position: int) -> tuple[int, int]:
    """Read an unsigned varint: its value and the position after it. Raises `MalformedMessage` when it has no end."""
    number = shift = 0
    while shift < 35:
        octet = buffer[position]
        position += 1
        number |= (octet & 127) << shift
        if octet < 128:
            return number, position
        shift += 7
    raise MalformedMessage("a varint is longer than five bytes")


def read_length(buffer: Any, position: int, field: str) -> tuple[int, int]:
    """Read the compact length that began before `position`: length plus one, and the position after it."""
    number, position = read_varint(buffer, position - 1)
    if number == 0:
        refuse_null(field)
    return number, position


def refuse_null(field: str) -> NoReturn:
    """Raise: a field that may not be null is."""
    raise MalformedMessage(f"{field} may not be null")


def refuse_text(field: str, length: int) -> NoReturn:
    """Raise: a text is longer than the records and the older versions that it goes into can have it."""
    raise MalformedMessage(f"{field} has {length} bytes; a text has at most {MOST_TEXT}, as in Kafka")


def refuse_length(field: str, length: int) -> NoReturn:
    """Raise: a list has more entries than bytes are left."""
    raise MalformedMessage(f"{field} has {length} entries, which is more than the bytes that are left of the message")


def skip_tags(buffer: Any, position: int, count: int) -> int:
    """Return the position after `count` tagged fields that this version does not know. `position` is after one byte."""
    if count > 127:
        count, position = read_varint(buffer, position - 1)
        if count > MOST_TAGS:
            raise MalformedMessage(f"{count} tagged fields in one struct")
    for _ in range(count):
        _, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        position += size
    return position


@cache
def run_packers(prefix: str, code: str) -> tuple[Callable[..., bytes], ...]:
    """Return, by length, what packs a short array of numbers together with its length."""
    return tuple(struct.Struct(f">{prefix}{length}{code}").pack for length in range(SHORT_RUN))


def pack_run(prefix: str, code: str, numbers: Sequence[Any]) -> bytes:
    """Pack an array of numbers with its length, which is compact where `prefix` is `B`."""
    length = len(numbers)
    head = compact(length) if prefix == "B" else struct.pack(">i", length)
    return head + struct.pack(f">{length}{code}", *numbers)


@cache
def run_unpackers(code: str) -> tuple[Callable[[Any, int], tuple[Any, ...]], ...]:
    """Return, by length, what unpacks a short array of numbers."""
    return tuple(struct.Struct(f">{length}{code}").unpack_from for length in range(SHORT_RUN))


def unpack_run(buffer: Any, position: int, length: int, code: str, size: int) -> list[Any]:
    """Unpack an array of numbers. Raises `MalformedMessage` before it takes memory that the buffer does not justify."""
    if length * size > len(buffer) - position:
        raise MalformedMessage(f"an array of {length} numbers is longer than what is left of the message")
    return list(struct.unpack_from(f">{length}{code}", buffer, position))
