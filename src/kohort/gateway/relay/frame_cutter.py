"""Cuts a stream of Kafka's frames into what passes unread and what is read whole.

A frame that is not read is never gathered: its bytes leave as they come, whatever its size. Whether a frame is read is
decided by its first bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage

_LENGTH = Struct(">i")
LENGTH_BYTES = 4


class Passing(NamedTuple):
    """Bytes of a frame that passes unread; `head` is set with the first of them."""

    head: bytes | None
    data: Buffer


class Whole(NamedTuple):
    """A frame that is read, with its length."""

    frame: bytes


class FrameCutter:
    """One direction of a connection.

    `is_read` gets the first `head_bytes` of a frame, its length included, and the length, and returns whether the frame
    is read. A frame shorter than its head passes.
    """

    __slots__ = ("_gathered", "_head_bytes", "_is_read", "_missing", "_passing", "_start")

    def __init__(self, head_bytes: int, is_read: Callable[[bytes, int], bool]) -> None:
        self._head_bytes = head_bytes
        self._is_read = is_read
        self._start = b""
        """The first bytes of a frame, fewer than its head."""
        self._passing = 0
        """How many bytes of a frame that passes are still to come."""
        self._gathered = bytearray()
        """The first bytes of a frame that is read: in one piece, since each byte may come alone."""
        self._missing = 0
        """How many bytes the frame in `_gathered` lacks."""

    @property
    def buffered_bytes(self) -> int:
        """How many bytes wait here for the rest of their frame."""
        return len(self._start) + len(self._gathered)

    @property
    def is_between_frames(self) -> bool:
        """Whether every frame that has begun has ended."""
        return not (self._start or self._passing or self._missing)

    @property
    def passing_bytes(self) -> int:
        """How many bytes of a frame that passes unread are still to come."""
        return self._passing

    def passed_elsewhere(self, count: int) -> None:
        """So many of these bytes have passed without `feed`."""
        assert count <= self._passing, "no more than the frame has"
        self._passing -= count

    def feed(self, chunk: Buffer) -> Iterable[Passing | Whole]:
        """Take bytes as they came; return what they make, in order: to be iterated over before the next ones come.

        The iteration raises `MalformedMessage` for a negative length.
        """
        size = len(chunk)
        if size < self._head_bytes or not self.is_between_frames:
            return self._cut(chunk)
        if _LENGTH.unpack_from(chunk)[0] != size - LENGTH_BYTES:
            return self._cut(chunk)
        # One frame, as nearly always where it is small.
        head = bytes(chunk[: self._head_bytes])
        is_read = self._is_read(head, size - LENGTH_BYTES)
        return (Whole(bytes(chunk)) if is_read else Passing(head, chunk),)

    def _cut(self, chunk: Buffer) -> Iterator[Passing | Whole]:
        position = 0
        if self._start:
            chunk = b"".join((self._start, chunk))
            self._start = b""
        view, end = memoryview(chunk), len(chunk)
        while position < end:
            if self._passing:
                stop = min(end, position + self._passing)
                self._passing -= stop - position
                yield Passing(None, view[position:stop])
            elif self._missing:
                stop = min(end, position + self._missing)
                self._missing -= stop - position
                self._gathered += view[position:stop]
                if not self._missing:
                    frame, self._gathered = bytes(self._gathered), bytearray()
                    yield Whole(frame)
            else:
                if end - position < LENGTH_BYTES:
                    self._start = bytes(view[position:])
                    return
                (length,) = _LENGTH.unpack_from(chunk, position)
                if length < 0:
                    raise MalformedMessage(f"a frame's length is {length}")
                if end - position < min(self._head_bytes, LENGTH_BYTES + length):
                    self._start = bytes(view[position:])
                    return
                stop = position + LENGTH_BYTES + length
                head = bytes(view[position : min(stop, position + self._head_bytes)])
                if len(head) == self._head_bytes and self._is_read(head, length):
                    if stop <= end:
                        yield Whole(bytes(view[position:stop]))
                    else:
                        self._gathered += view[position:]
                        self._missing = stop - end
                        return
                else:
                    yield Passing(head, view[position : min(stop, end)])
                    if stop > end:
                        self._passing = stop - end
                        return
            position = stop
