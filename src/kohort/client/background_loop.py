"""Background thread with one event loop for all blocking clients of a process, and how a blocking caller waits for it.

The thread starts with the first client and ends with the last. While a caller waits, it lends its thread to what must
run there: the plain methods of a rebalance listener.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any, TypeVar

from kohort.client.errors import ClientStopped
from kohort.net.environment import require
from kohort.net.event_loop import new_event_loop

ResultT = TypeVar("ResultT")

_END_TIMEOUT_S = 1.0
_TURNS = 3  # of the loop: a result is handed on, the waiting coroutine returns, its caller is woken


class _LoopThread:
    """The thread; `users` are the runners that use it."""

    def __init__(self) -> None:
        self._begin()
        # A child of os.fork() has no thread but its own: clients that are made there start one anew.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def acquire(self) -> asyncio.AbstractEventLoop:
        require("threads")
        with self._lock:
            if self._loop is None:
                self._loop = new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="kohort clients", daemon=True)
                self._thread.start()
            self._users += 1
            return self._loop

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users or self._loop is None or self._thread is None:
                return
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop = self._thread = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_end_all())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _end_all() -> None:
    """Let every call end that another thread still waits for: those that know their result return it."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_END_TIMEOUT_S)
    for _ in range(_TURNS):
        await asyncio.sleep(0)


_thread = _LoopThread()


class Runner:
    """Runs one client's coroutines on the shared loop for callers on other threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: deque[Callable[[], None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = os.getpid()
        self._is_closed = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; the thread is started if it does not run yet."""
        if self._loop is None:
            self._loop = _thread.acquire()
        return self._loop

    def run(self, begin: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Run a coroutine and return its result or raise its exception; an interrupt cancels it.

        Raises RuntimeError for a client that was stopped or that this process inherited by `os.fork()`, `ClientStopped`
        where another thread stops it meanwhile.
        """
        self._check_process()
        if self._is_closed:
            raise RuntimeError("this client was stopped: make a new one")
        loop = self.loop
        future = asyncio.run_coroutine_threadsafe(begin(), loop)
        future.add_done_callback(self._note)
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: future.done() or self._calls)
                    call = self._calls.popleft() if self._calls else None
                if call is None:
                    return future.result()
                call()
        except CancelledError:
            raise ClientStopped("this call returned") from None
        except BaseException:
            future.cancel()
            raise

    async def on_caller(self, function: Callable[[], object]) -> None:
        """Run a function on the thread of a caller that waits, now or the next time one does."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def call() -> None:
            error: BaseException | None = None
            try:
                function()
            except Exception as raised:
                error = raised
            loop.call_soon_threadsafe(resolve, error)

        def resolve(error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        with self._changed:
            self._calls.append(call)
            self._changed.notify_all()
        await done

    def end(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a client's last coroutine and release the thread; a second time does nothing."""
        self._check_process()
        if self._is_closed:
            return
        try:
            self.run(begin)
        finally:
            self._is_closed = True
            self._release()

    @contextmanager
    def released_on_failure(self) -> Iterator[None]:
        """Release the thread if the block raises."""
        try:
            yield
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        """Release the thread, which ends with its last client."""
        if self._loop is not None:
            self._loop = None
            _thread.release()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                f"this client was made in process {self._process}, and os.fork() does not take its connections and"
                f" thread along to process {os.getpid()}: make a client in the process that uses it, or start processes"
                " by multiprocessing's 'spawn'"
            )

    def _note(self, future: Future[Any]) -> None:
        del future
        with self._changed:
            self._changed.notify_all()
