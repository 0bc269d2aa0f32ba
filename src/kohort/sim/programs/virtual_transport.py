"""One connection of a program in virtual time, as asyncio's transports show it to their protocols.

Bytes that the network delays count as not yet written, so a protocol is paused as it would be by a full socket.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import Address, End

HIGH_WATER_BYTES = 64 << 10
LOOK_AGAIN_US = 10_000
"""How often a transport looks whether the network has taken what it delayed."""

_ENDED = {"closed by the peer": 0, "timed out": errno.ETIMEDOUT}


class HostLoop(Protocol):
    """The event loop of a process on a simulated host."""

    host: Host

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """Call as soon as what is ready now has run."""

    def enter(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback that an action of the host brings, and all that is ready then."""


class VirtualTransport(asyncio.Transport):
    """Transport between one end of a simulated connection and a protocol."""

    def __init__(self, loop: HostLoop, end: End, address: Address, protocol: asyncio.BaseProtocol) -> None:
        peer = {"peername": address, "sockname": (loop.host.name, 32_768 + end.number % 28_000)}
        super().__init__(peer)
        self._loop = loop
        self._end = end
        self._protocol = protocol
        self._backlog: list[bytes] = []
        self._is_paused = False
        self._is_closing = False
        self._is_lost = False
        self._is_crowded = False
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        end.on_bytes = self._take
        end.on_closed = self._lose

    # Writing

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send bytes."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if not self._is_closing:
            self._end.send(bytes(data))
            self._pause_if_full()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """Send buffers in order."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Return False: a simulated connection ends in both directions at once."""
        return False

    def write_eof(self) -> None:
        """Raise: see `can_write_eof`."""
        raise NotImplementedError("a simulated connection cannot be closed in one direction only: call close()")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set from how many unwritten bytes on the protocol is paused, and when it is resumed."""
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return (low, high)."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the network has not taken yet."""
        return self._end.unsent

    def _pause_if_full(self) -> None:
        if not self._is_crowded and self._end.unsent > self._high:
            self._is_crowded = True
            self._protocol.pause_writing()
            self._loop.host.after_us(LOOK_AGAIN_US, self._loop.enter, self._look_again)

    def _look_again(self) -> None:
        if self._is_lost or not self._is_crowded:
            return
        if self._end.unsent > self._low:
            self._loop.host.after_us(LOOK_AGAIN_US, self._loop.enter, self._look_again)
        else:
            self._is_crowded = False
            self._protocol.resume_writing()

    # Reading

    def is_reading(self) -> bool:
        """Return whether bytes are taken."""
        return not self._is_paused and not self._is_closing

    def pause_reading(self) -> None:
        """Give the protocol no bytes until `resume_reading`."""
        if self.is_reading():
            self._is_paused = True
            self._end.pause_reading()

    def resume_reading(self) -> None:
        """Deliver received bytes again."""
        if self._is_paused and not self._is_closing:
            self._is_paused = False
            self._loop.call_soon(self._work_off)
            self._end.resume_reading()

    def _take(self, chunk: bytes) -> None:
        self._backlog.append(chunk)
        self._loop.enter(self._work_off)

    def _work_off(self) -> None:
        while self._backlog and not self._is_paused and not self._is_closing:
            chunk = self._backlog.pop(0)
            protocol = self._protocol
            if isinstance(protocol, asyncio.BufferedProtocol):
                if rest := self._fill(protocol, chunk):
                    self._backlog.insert(0, rest)
            else:
                assert isinstance(protocol, asyncio.Protocol), "a stream's protocol takes bytes"
                protocol.data_received(chunk)

    def _fill(self, protocol: asyncio.BufferedProtocol, chunk: bytes) -> bytes:
        """Give a protocol as much as its buffer takes; return the rest."""
        buffer = memoryview(protocol.get_buffer(len(chunk))).cast("B")
        if not len(buffer):
            raise RuntimeError("get_buffer() returned an empty buffer")
        count = min(len(buffer), len(chunk))
        buffer[:count] = chunk[:count]
        protocol.buffer_updated(count)
        return chunk[count:]

    # The end

    def is_closing(self) -> bool:
        """Return whether it is closed or about to be."""
        return self._is_closing

    def close(self) -> None:
        """Close after what was written."""
        if not self._is_closing:
            self._is_closing = True
            self._end.close()
            self._loop.call_soon(self._report_lost, None)

    def abort(self) -> None:
        """Close at once; what was written may be lost."""
        if not self._is_closing:
            self._is_closing = True
            self._end.abort()
            self._loop.call_soon(self._report_lost, None)

    def _lose(self, why: str) -> None:
        self._loop.enter(self._learn_of_the_end, why)

    def _learn_of_the_end(self, why: str) -> None:
        if self._is_closing:
            return
        code = _ENDED.get(why, errno.ECONNRESET)
        error = OSError(code, os.strerror(code)) if code else None
        if error is None and self._takes_half():
            return
        self._is_closing = True
        self._report_lost(error)

    def _takes_half(self) -> bool:
        """Report to the protocol that the peer has closed; return whether it leaves the connection open."""
        protocol = self._protocol
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol), "a stream's protocol sees its end"
        return bool(protocol.eof_received())

    def _report_lost(self, error: OSError | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._backlog.clear()
            self._protocol.connection_lost(error)

    # The protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Talk to another protocol from here."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol
