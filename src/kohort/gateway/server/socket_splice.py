"""Moves bytes from one socket to another inside the kernel (Linux's splice), for large answers that are not read.

A gateway on the way of a large Fetch answer would copy it into its memory and out again: most of its cost.
Both sockets belong to transports of the event loop: the source's is paused and the target's has nothing to send
meanwhile. The descriptors here are duplicates, since a loop refuses those of its transports.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NamedTuple

MOST = 8
"""How many splices there are at a time: each has four descriptors. Other answers pass through memory."""

PATIENCE_S = 1.0
"""How long a splice may last at least, where its target takes no bytes and another answer wants its place."""

WORTH_BYTES = 262_144
"""Fewer bytes pass through memory: they would cost no less."""

PIPE_BYTES = 1 << 20
"""The capacity of a pipe where the system allows it, and what one turn of the event loop moves at most."""

_REFUSED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
"""How a system answers that does not splice these sockets, a sandbox above all."""


class Pipe(NamedTuple):
    """Both ends of a pipe through which bytes pass."""

    read_end: int
    write_end: int


class SocketSplice:
    """The move of `left` bytes from one socket to another.

    `moved` gets the number of bytes that the target has taken, each time. `ended` is called once unless `stop` came
    first: when all have moved, when another splice takes the place, or when one of the sockets fails. It gets the bytes
    that have left the source and not reached the target, and how the source has failed: a socket shows that once. The
    end of the source, or a target that fails, are seen by their transports.
    """

    def __init__(
        self,
        splices: SocketSplices,
        source: int,
        target: int,
        left: int,
        moved: Callable[[int], None],
        ended: Callable[[bytes, OSError | None], None],
    ) -> None:
        self._splices = splices
        self._loop = asyncio.get_running_loop()
        with ExitStack() as opened:
            self._source = os.dup(source)
            opened.callback(os.close, self._source)
            self._target = os.dup(target)
            opened.callback(os.close, self._target)
            self._pipe = splices.pop_pipe(self)
            self._closing = opened.pop_all()
        self._left = left
        self._moved = moved
        self._ended = ended
        self.began_s = self._loop.time()
        self.is_full = False
        """Whether the target takes no bytes now."""
        self.buffered_bytes = 0
        """How many bytes are in the pipe."""
        self._loop.add_reader(self._source, self._fill)

    def _fill(self) -> None:
        try:
            count = _splice(self._source, self._pipe.write_end, min(self._left, PIPE_BYTES))
        except BlockingIOError:
            return
        except OSError as error:
            is_refused = error.errno in _REFUSED
            self._splices.is_usable &= not is_refused
            self._end(None if is_refused else error)
            return
        if not count:  # the source was closed
            self._end()
            return
        self._left -= count
        self.buffered_bytes = count
        self._empty()

    def _empty(self) -> None:
        before = self.buffered_bytes
        is_full = False
        try:
            while self.buffered_bytes:
                self.buffered_bytes -= _splice(self._pipe.read_end, self._target, self.buffered_bytes)
        except BlockingIOError:
            is_full = True
        except OSError:
            self._end()
            return
        self._splices.moved_bytes += before - self.buffered_bytes
        self._moved(before - self.buffered_bytes)
        if is_full != self.is_full:
            self.is_full = is_full
            if is_full:
                self._loop.remove_reader(self._source)
                self._loop.add_writer(self._target, self._empty)
            else:
                self._loop.remove_writer(self._target)
                self._loop.add_reader(self._source, self._fill)
        if not self._left and not is_full:
            self._end()

    def _end(self, error: OSError | None = None) -> None:
        self.stop()
        self._ended(b"", error)

    def give_way(self) -> None:
        """End before all has moved."""
        rest = b""
        while self.buffered_bytes:
            data = os.read(self._pipe.read_end, self.buffered_bytes)
            self.buffered_bytes -= len(data)
            rest += data
        self.stop()
        self._ended(rest, None)

    def stop(self) -> None:
        """Close what was opened; bytes that are still in the pipe are dropped."""
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._target)
        self._closing.close()
        self._splices.give_back(self, self._pipe, is_empty=not self.buffered_bytes)


class SocketSplices:
    """The splices of one process, and the pipes that they use again."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self.is_usable = hasattr(os, "splice")
        """Whether the system knows splices, as far as was seen."""
        self.moved_bytes = 0
        """How many bytes have passed without entering this process."""
        self._running: dict[SocketSplice, None] = {}
        """In the order in which they began."""
        self._free: list[Pipe] = []

    def begin(
        self,
        source: int,
        target: int,
        count: int,
        moved: Callable[[int], None],
        ended: Callable[[bytes, OSError | None], None],
    ) -> SocketSplice | None:
        """Begin to move `count` bytes between two sockets; return None where that is not possible now."""
        if not self.is_usable:
            return None
        if len(self._running) >= MOST:
            slow = self._slow()
            if slow is None:
                return None
            slow.give_way()
        try:
            return SocketSplice(self, source, target, count, moved, ended)
        except OSError:  # no more descriptors
            return None

    @property
    def has_room(self) -> bool:
        """Whether one more splice may begin."""
        return self.is_usable and (len(self._running) < MOST or self._slow() is not None)

    def _slow(self) -> SocketSplice | None:
        """Return the splice that is to give way: of those whose targets take no bytes, the one that began first.

        Without that, clients that do not read would block what others could use.
        """
        before_s = asyncio.get_running_loop().time() - self._patience_s
        return next((each for each in self._running if each.is_full and each.began_s <= before_s), None)

    def pop_pipe(self, splice: SocketSplice) -> Pipe:
        """Return an empty pipe for a splice that begins. Raises OSError."""
        pipe = self._free.pop() if self._free else _new_pipe()
        self._running[splice] = None
        return pipe

    def give_back(self, splice: SocketSplice, pipe: Pipe, *, is_empty: bool) -> None:
        """Use the pipe of a splice that has ended for the next one, or close it."""
        del self._running[splice]
        if is_empty:
            self._free.append(pipe)
        else:
            _close(pipe)

    def close(self) -> None:
        """Close the pipes that are free."""
        while self._free:
            _close(self._free.pop())


def _splice(source: int, target: int, count: int) -> int:
    return os.splice(source, target, count, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)


def _new_pipe() -> Pipe:
    pipe = Pipe(*os.pipe())
    with suppress(OSError):  # beyond what this user may have: it works with less
        fcntl.fcntl(pipe.write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return pipe


def _close(pipe: Pipe) -> None:
    os.close(pipe.read_end)
    os.close(pipe.write_end)
