"""Reads what programs other than consumers embed in JoinGroup and SyncGroup, field by field, within bounds."""

from __future__ import annotations

from struct import Struct
from struct import error as ShortRead  # noqa: N812

from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage

_INT8, _INT16, _INT32, _INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")


class EmbeddedReader:
    """The fields of one message, one after the other. `program` is whose message it is. Raises MalformedMessage."""

    def __init__(self, blob: Buffer, program: str) -> None:
        self._blob = bytes(blob)
        self._program = program
        self._at = 0

    def int8(self) -> int:
        """Return a number of one byte."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Return a number of two bytes."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Return a number of four bytes."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Return a number of eight bytes."""
        return self._number(_INT64)

    def _number(self, kind: Struct) -> int:
        try:
            (found,) = kind.unpack_from(self._blob, self._at)
        except ShortRead as error:
            raise MalformedMessage(f"a message of {self._program} ends after {len(self._blob)} bytes") from error
        self._at += kind.size
        return int(found)

    def text(self) -> str:
        """Return a text of UTF-8 with its length in two bytes."""
        return self._decoded(self.bytes_of(self.int16()), "utf-8")

    def wide_text(self) -> str:
        """Return a text of UTF-16 with its number of characters in four bytes."""
        return self._decoded(self.bytes_of(2 * self.int32()), "utf-16-be")

    def _decoded(self, found: bytes, encoding: str) -> str:
        try:
            return found.decode(encoding)
        except UnicodeDecodeError as error:
            raise MalformedMessage(f"a message of {self._program} has a text that is no {encoding.upper()}") from error

    def blob(self) -> bytes:
        """Return bytes with their length in four bytes; null is none."""
        return self.bytes_of(max(self.count(1), 0))

    def bytes_of(self, length: int) -> bytes:
        """Return the next `length` bytes."""
        end = self._at + length
        if length < 0 or end > len(self._blob):
            raise MalformedMessage(f"a message of {self._program} has a field of {length} bytes")
        found = self._blob[self._at : end]
        self._at = end
        return found

    def count(self, least: int) -> int:
        """Return how many entries of `least` bytes at least follow; a null array has none."""
        count = self.int32()
        if count * least > len(self._blob) - self._at:
            raise MalformedMessage(f"a message of {self._program} has {count} entries in {len(self._blob)} bytes")
        return max(count, 0)
