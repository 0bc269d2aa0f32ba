"""Patches of the standard library: programs in worlds get the world's time and random numbers from it too.

For code that runs on a virtual loop `time` returns its host's time and `time.sleep` lets it pass, `random` and
`os.urandom` are decided by the seed, and starting a thread or process or connecting a real socket raises
`NotSimulated`. Other code, and code that runs afterwards, is not affected.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kohort.sim.programs.virtual_loop import NotSimulated, VirtualLoop


def _loop() -> VirtualLoop | None:
    running = asyncio._get_running_loop()
    return running if isinstance(running, VirtualLoop) else None


def _clock(real: Callable[[], Any], virtual: Callable[[VirtualLoop], Any]) -> Callable[[], Any]:
    def now() -> Any:
        loop = _loop()
        return real() if loop is None else virtual(loop)

    return now


def _refusing(real: Callable[..., Any], what: str, instead: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if _loop() is not None:
            raise NotSimulated(what, instead)
        return real(*args, **kwargs)

    return call


def _sleep(seconds: float) -> None:
    loop = _loop()
    if loop is None:
        _REAL_SLEEP(seconds)
    else:
        loop.block(seconds)


def _urandom(count: int) -> bytes:
    loop = _loop()
    return _REAL_URANDOM(count) if loop is None else loop.environment.randbytes(count)


_REAL_SLEEP = time.sleep
_REAL_URANDOM = os.urandom

_STANDS_IN: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (time, "time", _clock(time.time, lambda loop: loop.host.now_us() / 1e6)),
    (time, "time_ns", _clock(time.time_ns, lambda loop: loop.host.now_us() * 1000)),
    (time, "monotonic", _clock(time.monotonic, lambda loop: loop.time())),
    (time, "monotonic_ns", _clock(time.monotonic_ns, lambda loop: loop.host.elapsed_us() * 1000)),
    (time, "perf_counter", _clock(time.perf_counter, lambda loop: loop.time())),
    (time, "perf_counter_ns", _clock(time.perf_counter_ns, lambda loop: loop.host.elapsed_us() * 1000)),
    (time, "sleep", _sleep),
    (os, "urandom", _urandom),
    (threading.Thread, "start", _refusing(threading.Thread.start, "thread", "use tasks, or asyncio.to_thread")),
    (socket.socket, "connect", _refusing(socket.socket.connect, "socket", "put a double in the test")),
    (socket.socket, "connect_ex", _refusing(socket.socket.connect_ex, "socket", "put a double in the test")),
    (subprocess.Popen, "__init__", _refusing(subprocess.Popen.__init__, "subprocess", "put a double in the test")),
)


@contextmanager
def guarded(seed: int) -> Iterator[None]:
    """Stand in for the standard library while a world runs."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in _STANDS_IN]
    state = random.getstate()
    random.seed(seed)
    for owner, name, stand_in in _STANDS_IN:
        setattr(owner, name, stand_in)
    try:
        yield
    finally:
        for owner, name, real in before:
            setattr(owner, name, real)
        random.setstate(state)
