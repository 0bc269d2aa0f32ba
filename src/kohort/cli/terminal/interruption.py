"""SIGINT, SIGTERM and a closed stdout: the first signal ends a command cleanly, the second ends the process at once.

A command in an event loop is cancelled: its connections are closed within two seconds, also where no broker answers. A
signal that the process was started to ignore, as under nohup, stays ignored.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from kohort.cli.terminal import output
from kohort.cli.terminal.failure import OutputClosed

ResultT = TypeVar("ResultT")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_S = 1.4
"""How long a cancelled command may take to commit, leave its group and close its connections."""
EXIT_S = 0.5
"""How long after that the process ends regardless of what still runs, as a name look-up that cannot be cancelled."""


class Interrupted(Exception):
    """A signal ended the command."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


@contextmanager
def first_signal(act: Callable[[int], object]) -> Iterator[None]:
    """Within the block the first SIGINT or SIGTERM calls `act` with its number; the second ends the process.

    The handler is Python's own, not the event loop's: it runs also while the process waits to write to a full pipe.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(number: int, _frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        act(number)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    taken = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in taken:
        signal.signal(number, first)
    try:
        yield
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


def raise_keyboard_interrupt(_number: int) -> None:
    """End code that runs outside of an event loop."""
    raise KeyboardInterrupt


def run(work: Coroutine[Any, Any, ResultT], grace_s: float = GRACE_S) -> ResultT:
    """Run a coroutine in a loop of its own; a signal, or a reader of stdout that closes its end, cancels it.

    It is cancelled again, and the process soon ends, where it has not ended after `grace_s`.
    Raises Interrupted and OutputClosed where the coroutine did not end by itself after that.
    """
    interruption = _Interruption(grace_s)
    try:
        return asyncio.run(interruption.watch(work))
    except asyncio.CancelledError as cancelled:
        raise interruption.reason or cancelled from None


class _Interruption:
    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self.reason: Interrupted | OutputClosed | None = None

    async def watch(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"

        def interrupt(number: int) -> None:
            self.reason = Interrupted(number)
            loop.call_soon_threadsafe(cancel)
            end_soon(128 + number)

        def close() -> None:
            loop.remove_reader(output_fd)
            self.reason = OutputClosed()
            cancel()
            end_soon(0)

        def cancel() -> None:
            task.cancel()
            loop.call_later(self._grace_s, task.cancel)

        def end_soon(status: int) -> None:
            last = threading.Timer(self._grace_s + EXIT_S, _exit, (status,))
            last.daemon = True
            last.start()

        output_fd = _pipe_of_stdout()
        if output_fd >= 0:
            loop.add_reader(output_fd, close)  # a pipe's writing end is "readable" once its reader is gone
        try:
            with first_signal(interrupt):
                return await work
        finally:
            if output_fd >= 0:
                loop.remove_reader(output_fd)


def _pipe_of_stdout() -> int:
    """Return the descriptor of stdout where it is a pipe, else -1."""
    try:
        descriptor = sys.stdout.fileno()
        return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else -1
    except (OSError, ValueError):  # closed, or not a file
        return -1


def _exit(status: int) -> None:
    output.remark("ended without waiting any longer for the cluster to answer")
    os._exit(status)
