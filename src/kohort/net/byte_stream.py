"""The two directions of a byte stream: frames that are cut from received bytes, and buffers that are written.

A reader takes a buffer, receives into it, and reports how much came (asyncio's BufferedProtocol, or `recv_into`). A
large frame is received straight into memory of its own and never copied; it lives as long as views of it. A small one
is copied once, out of the staging buffer.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from struct import Struct

from kohort.wire.codec import Buffer
from kohort.wire.frames import bad_length

_LENGTH = Struct(">i")
_STAGING_BYTES = 1 << 16

IS_UNPAUSED = (3, 12, 0) <= sys.version_info < (3, 12, 9) or (3, 13, 0) <= sys.version_info < (3, 13, 2)
"""Whether asyncio's own `writelines` never pauses its protocol, so that a slow reader fills the memory
(CVE-2024-12254). uvloop's transports do not come from there."""


class FrameReceiver:
    """Where received bytes go, and the frames they make. `limit` is the largest frame in bytes."""

    __slots__ = ("_end", "_filled", "_large", "_limit", "_staging", "_start", "_view")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._staging = bytearray(_STAGING_BYTES)
        self._view = memoryview(self._staging)
        self._start = 0
        self._end = 0
        self._large: memoryview | None = None
        self._filled = 0

    @property
    def is_large(self) -> bool:
        """Whether a frame is being received into memory of its own, so that the buffer ends where the frame does."""
        return self._large is not None

    def buffer(self) -> memoryview:
        """Return where to receive into next; it is never empty."""
        if self._large is not None:
            return self._large[self._filled :]
        return self._view[self._end :]

    def received(self, count: int) -> list[Buffer]:
        """Take note of `count` bytes in the buffer asked for; return the frames now whole, without their lengths.

        Raises `FrameTooLarge` and `MalformedMessage`; the stream is useless after that.
        """
        if self._large is not None:
            self._filled += count
            if self._filled < len(self._large):
                return []
            frame, self._large = self._large, None
            return [frame.toreadonly()]
        self._end += count
        return self._cut()

    def _cut(self) -> list[Buffer]:
        frames: list[Buffer] = []
        staging, start, end = self._staging, self._start, self._end
        while end - start >= 4:
            (length,) = _LENGTH.unpack_from(staging, start)
            if not 0 <= length <= self._limit:
                raise bad_length(length, self._limit)
            stop = start + 4 + length
            if stop > end:
                if length + 4 > _STAGING_BYTES:
                    self._begin_large(length, start + 4, end)
                    start = end
                break
            frames.append(bytes(self._view[start + 4 : stop]))
            start = stop
        if start == end:
            start = end = 0
        elif start:
            # The rest of a frame must fit behind what is there of it.
            staging[: end - start] = staging[start:end]
            start, end = 0, end - start
        self._start, self._end = start, end
        return frames

    def _begin_large(self, length: int, start: int, end: int) -> None:
        self._large = memoryview(bytearray(length))
        self._filled = end - start
        self._large[: self._filled] = self._view[start:end]


def write(transport: asyncio.WriteTransport, buffers: Sequence[Buffer]) -> None:
    """Write buffers in order; they must not change afterwards. The protocol is paused as for a single one."""
    if len(buffers) == 1:
        transport.write(buffers[0])
    elif IS_UNPAUSED and type(transport).__module__ == "asyncio.selector_events":
        for buffer in buffers:
            transport.write(buffer)
    else:
        transport.writelines(buffers)
