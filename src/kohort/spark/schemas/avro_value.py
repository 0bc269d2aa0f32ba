"""One Avro value as Python's, by the schema of its writer: for a page, not for a table.

A record may have anything in it. What is read is bounded by `VALUES`: an array of nulls has a length and no bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from kohort.spark.schemas.avro_schema import Array, Avro, Enum, Fixed, Map, Primitive, Record, Union

VALUES = 10_000
"""In one record, those within others included."""

ItemT = TypeVar("ItemT")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEPS = {"millis": timedelta(milliseconds=1), "micros": timedelta(microseconds=1)}


def avro_value(schema: Avro, content: bytes) -> Any:
    """Return what JSON can have; bytes are hex, dates, times and decimals texts. Raises ValueError."""
    reader = _Reader(content)
    value = reader.value(schema)
    if reader.at != len(content):
        raise ValueError(f"{len(content) - reader.at:,} bytes are left behind the value")
    return value


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._left = VALUES
        self.at = 0

    def value(self, node: Avro) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {VALUES:,} values")
        match node:
            case Primitive():
                return self._primitive(node)
            case Fixed():
                return _bytes(node, self._take(node.size))
            case Enum():
                return node.symbols[self._index(len(node.symbols))]
            case Union():
                return self.value(node.branches[self._index(len(node.branches))])
            case Record():
                return {each.name: self.value(each.type) for each in node.fields}
            case Array():
                return list(self._blocks(lambda: self.value(node.items)))
            case Map():
                return dict(self._blocks(lambda: (self._text(), self.value(node.values))))

    def _primitive(self, node: Primitive) -> Any:
        match node.kind:
            case "null":
                return None
            case "boolean":
                return bool(self._take(1)[0])
            case "int" | "long":
                return _moment(node.logical, self._long())
            case "float" | "double":
                size, code = (4, "<f") if node.kind == "float" else (8, "<d")
                return struct.unpack(code, self._take(size))[0]
            case "bytes":
                return _bytes(node, self._take(self._long()))
            case _:
                return self._text()

    def _blocks(self, item: Callable[[], ItemT]) -> Iterator[ItemT]:
        while count := self._long():
            if count < 0:
                self._long()  # how many bytes the block has
            for _ in range(abs(count)):
                yield item()

    def _text(self) -> str:
        return self._take(self._long()).decode()

    def _index(self, count: int) -> int:
        found = self._long()
        if not 0 <= found < count:
            raise ValueError(f"{found} is none of {count} branches or symbols")
        return found

    def _long(self) -> int:
        found = shift = 0
        while True:
            byte = self._take(1)[0]
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than ten bytes")

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._content) - self.at:
            raise ValueError(f"{size:,} bytes are expected at byte {self.at:,} of {len(self._content):,}")
        self.at += size
        return self._content[self.at - size : self.at]


def _bytes(node: Primitive | Fixed, content: bytes) -> str:
    if node.logical != "decimal":
        return content.hex(" ")
    number = int.from_bytes(content, signed=True)
    return format(Decimal((number < 0, tuple(map(int, str(abs(number)))), -node.scale)), "f")


def _moment(logical: str, number: int) -> Any:
    """Return a date or a time as ISO 8601 has it; the number where it is none, or beyond the year 9999."""
    kind, _, unit = logical.rpartition("-")
    try:
        if logical == "date":
            return (_EPOCH + timedelta(days=number)).date().isoformat()
        if kind == "time":
            return (_EPOCH + number * _STEPS[unit]).time().isoformat()
        if kind in ("timestamp", "local-timestamp"):
            return (_EPOCH + number * _STEPS[unit]).isoformat().removesuffix("" if kind == "timestamp" else "+00:00")
    except OverflowError:
        pass
    return number
