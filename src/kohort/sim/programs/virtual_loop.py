"""An asyncio event loop in virtual time: a program runs on it as on its own machine, and does not notice.

A loop belongs to a `Host`. It runs whatever is ready at one moment of the world and is then left; timers, bytes and the
end of "blocking" calls come back to it as actions of the host, so a kill drops everything at once, a freeze stops it,
and its clock drifts with the host's. There is no thread, socket or real clock behind it: what needs one raises
`NotSimulated`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from asyncio import events, tasks
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from math import inf
from random import Random
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import End, Network
from kohort.sim.kernel.scheduler import Due
from kohort.sim.programs.virtual_transport import VirtualTransport

_REFUSED = {
    "subprocess": ("subprocess_exec", "subprocess_shell", "connect_read_pipe", "connect_write_pipe"),
    "server of the program's own": ("create_server", "create_unix_server", "connect_accepted_socket"),
    "socket": (
        "create_datagram_endpoint", "create_unix_connection", "add_reader", "remove_reader", "add_writer",
        "remove_writer", "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall",
        "sock_sendto", "sock_connect", "sock_accept", "sock_sendfile", "sendfile",
    ),
    "TLS": ("start_tls",),
}  # fmt: skip
"""The methods of an event loop that need something real, by what that is."""


class NotSimulated(RuntimeError):
    """The program asked for something real: a thread, a process, a socket, TLS."""

    def __init__(self, what: str, instead: str = "give the program something to take its place in the test") -> None:
        super().__init__(f"there is no {what} in a simulated world: {instead}")


class RandomSource:
    """The environment of a simulated program (`net.environment`): random numbers and wall-clock time of its world."""

    def __init__(self, host: Host, random: Random) -> None:
        self.random = random.random
        self.randbytes = random.randbytes
        self.wall_ms = host.now_ms
        self.observer: object = None
        self.program: object = None
        """Whose loop it is."""

    def refuse(self, what: str) -> NoReturn:
        """Raise `NotSimulated`."""
        raise NotSimulated(what)


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BUSY_TURNS = 10_000
"""After how many callbacks without a pause a program has used up a millisecond."""

BLOCKING_US = 20_000
"""What a call in an executor takes at most."""

_LAST_WORDS = 10_000


class Stalled(RuntimeError):
    """Nothing is left to happen in the world, and what is waited for has not come."""


class VirtualTask(asyncio.Task[T]):
    """A task whose order in a set does not depend on chance: by number, not by where it lies in memory."""

    def __init__(self, work: Generator[Any, None, T] | Coroutine[Any, Any, T], *, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(work, **options)

    def __hash__(self) -> int:
        return self._number


@contextmanager
def outside_of_loops() -> Iterator[None]:
    """Within the block the thread has no running loop and no current task, so that other loops can run there."""
    loop = events._get_running_loop()
    task = None if loop is None else tasks.current_task(loop)
    if task is not None:  # from Python 3.14 on a thread has one current task, not one for each loop
        tasks._leave_task(task.get_loop(), task)
    events._set_running_loop(None)
    try:
        yield
    finally:
        events._set_running_loop(loop)
        if task is not None:
            tasks._enter_task(task.get_loop(), task)


class _LoopTimer(events.TimerHandle):
    """A timer with its place in the scheduler."""

    __slots__ = ("due",)
    due: Due | None

    def cancel(self) -> None:
        if not self.cancelled() and self.due is not None:
            self.due.cancel()
        self._scheduled = False
        super().cancel()


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of one process on a host. `random` has the process's random numbers."""

    _is_inside = False

    def __init__(self, host: Host, network: Network, random: Random) -> None:
        super().__init__()
        self.host = host
        self.environment = RandomSource(host, random)
        self._network = network
        self._random = random
        self._ready: deque[events.Handle] = deque()
        self._waking: Due | None = None
        self._is_dead = False
        self._numbers = 0
        self._tasks: dict[VirtualTask[Any], None] = {}
        self._signals: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self._stopping = False
        host.on_death.append(self.die)

    # -- time

    def time(self) -> float:
        """Return what the host's clock has counted, in seconds."""
        return self.host.elapsed_us() / 1_000_000

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> events.TimerHandle:
        """Call when `time()` has reached `when`."""
        self._check_closed()
        timer = _LoopTimer(when, callback, args, self, context)
        timer.due = None
        if when < inf and not self._is_dead:
            elapsed_us = max(0, int(when * 1_000_000))
            while elapsed_us / 1_000_000 < when:
                elapsed_us += 1  # a timer never fires before its time, not by a rounding either
            timer.due = self.host.at_us(self.host.reach_us(elapsed_us), self._fire, timer)
            timer._scheduled = True
        return timer

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> events.TimerHandle:
        """Call so many seconds later."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _fire(self, timer: _LoopTimer) -> None:
        timer.due, timer._scheduled = None, False
        self._ready.append(timer)
        self._run_ready()

    # -- what is ready

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> events.Handle:
        """Call as soon as what is ready now has run."""
        if self._is_dead:
            return _nothing(self)
        self._check_closed()
        handle = events.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self._is_inside and self._waking is None:
            self._waking = self.host.after_us(0, self._wake)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> events.Handle:
        """Call as `call_soon` does: a world has one thread."""
        return self.call_soon(callback, *args, context=context)

    def enter(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call what came from outside, and run all that is ready then; for actions of the loop's host."""
        if not self._is_dead:
            self._ready.append(events.Handle(callback, arguments, self))
            self._run_ready()

    def _wake(self) -> None:
        self._waking = None
        self._run_ready()

    def _run_ready(self) -> None:
        if self._is_inside:
            return
        ready, turns = self._ready, 0
        with self._running():
            while ready:
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
                turns += 1
                if turns >= BUSY_TURNS:
                    break
        if ready and self._waking is None:
            self._waking = self.host.after_us(1_000, self._wake)

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Be the thread's running loop; another one may be around, that of a test that drives this world."""
        hooks = sys.get_asyncgen_hooks()
        with outside_of_loops():
            self._is_inside = True
            events._set_running_loop(self)
            sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)  # type: ignore[attr-defined]
            try:
                yield
            finally:
                sys.set_asyncgen_hooks(*hooks)
                events._set_running_loop(None)
                self._is_inside = False

    def block(self, seconds: float) -> None:
        """Let time pass inside a call that blocks the whole loop: the world continues, nothing happens on this host."""
        scheduler = self.host.scheduler
        until_us = scheduler.now_us + max(0, round(seconds * 1_000_000))
        self.host.freeze(until_us)
        with outside_of_loops():
            scheduler.run_until(until_us)

    # -- tasks

    def create_task(  # type: ignore[override]
        self,
        work: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        """Start a task. The loop refers to it until it is done: no collector takes it away in the middle."""
        self._check_closed()
        number = self._numbers = self._numbers + 1
        named = f"Task-{number}" if name is None else name
        task = VirtualTask(work, number=number, loop=self, name=named, context=context, **options)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def living(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that are not done, in the order of their making."""
        return list(self._tasks)

    # -- life

    def _check_closed(self) -> None:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")

    def is_running(self) -> bool:
        """Return whether the caller runs inside it."""
        return self._is_inside

    def run_forever(self) -> None:
        """Drive the whole world until `stop` is called. Raises `Stalled` where nothing is left to happen."""
        self._check_closed()
        if self._is_inside:
            raise RuntimeError("This event loop is already running")
        self._stopping = False
        while not self._stopping:
            if self._is_dead:
                raise Stalled(f"the process on {self.host.name} was killed")
            if not self.host.scheduler.step():
                raise Stalled("nothing is left to happen in this world, and what is waited for has not come")
        self._stopping = False

    def stop(self) -> None:
        """Have `run_forever` return."""
        self._stopping = True

    def die(self) -> None:
        """Be killed: nothing runs any more, and no handler is called."""
        self._is_dead = True
        self._ready.clear()
        self._signals.clear()

    def close(self) -> None:
        """Take the loop apart: what its tasks still wanted to do at their end has no effect any more."""
        if self.is_closed():
            return
        self.die()
        with self._running():
            while self._tasks:
                task, _ = self._tasks.popitem()
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _drop(task.get_coro())
        super().close()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Take an exception that no task took."""
        if not self._is_dead:
            super().call_exception_handler(context)

    # -- the network

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: object = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect over the simulated network. Raises OSError, `NotSimulated` for TLS and sockets."""
        if ssl:
            raise NotSimulated("TLS", "leave tls out, or pass it in from outside")
        if sock is not None or host is None or port is None:
            raise NotSimulated("socket", "connect to a host and port of the world")
        address = (host, int(port))
        opening: asyncio.Future[tuple[asyncio.Transport, asyncio.BaseProtocol]] = self.create_future()

        def opened(end: End) -> None:
            if opening.done() or self._is_dead:
                end.abort()
                return
            protocol = protocol_factory()
            transport = VirtualTransport(self, end, address, protocol)
            protocol.connection_made(transport)
            opening.set_result((transport, protocol))

        def failed(why: str) -> None:
            code = errno.ETIMEDOUT if why == "timed out" else errno.ECONNREFUSED
            if not opening.done():
                opening.set_exception(OSError(code, f"Connect call failed {address}: {os.strerror(code)}"))

        self._network.connect(
            self.host, address, lambda end: self.enter(opened, end), lambda why: self.enter(failed, why)
        )
        return await opening

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        """Return a host of the world under its own name."""
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, int(port or 0)))]

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        """Return the name of a host of the world."""
        return str(sockaddr[0]), str(sockaddr[1])

    # -- blocking calls and signals

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call a function as a thread would: at some moment soon, while the loop's clock runs."""
        self._check_closed()
        done: asyncio.Future[T] = self.create_future()
        self.host.after_us(self._random.randrange(BLOCKING_US), self._run_blocking, done, func, args)
        return done

    def _run_blocking(self, done: asyncio.Future[T], func: Callable[..., T], args: tuple[Any, ...]) -> None:
        if done.cancelled():
            return
        try:
            result = func(*args)
        except Exception as error:
            self.enter(_settle, done.set_exception, done, error)
        else:
            self.enter(_settle, done.set_result, done, result)

    def set_default_executor(self, executor: object) -> None:
        """Take no notice: there are no threads."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there is none."""

    def add_signal_handler(self, sig: int, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Call when the world sends the process a signal (`receive`)."""
        self._signals[int(sig)] = (callback, args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Take no notice of a signal any more."""
        return self._signals.pop(int(sig), None) is not None

    def receive(self, sig: int) -> bool:
        """Take a signal; return whether the program has a way to deal with it."""
        if int(sig) not in self._signals:
            return False
        callback, args = self._signals[int(sig)]
        self.call_soon(callback, *args)
        return True


def _settle(settle: Callable[[Any], None], future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        settle(value)


def _nothing(loop: VirtualLoop) -> events.Handle:
    handle = events.Handle(lambda: None, (), loop)
    handle.cancel()
    return handle


def _drop(work: Any) -> None:
    """End a coroutine that no loop runs any more, the innermost of those it waits for first.

    What they report about that, and what they want to wait for yet, is of no interest.
    """
    for _ in range(_LAST_WORDS):
        innermost = work
        while getattr(awaited := getattr(innermost, "cr_await", None), "cr_frame", None) is not None:
            innermost = awaited
        with suppress(BaseException):
            innermost.close()
            if innermost is work:
                return


def _refusal(what: str, name: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotSimulated(what, f"{name} reaches out of it")

    return refuse


for _what, _names in _REFUSED.items():
    for _name in _names:
        setattr(VirtualLoop, _name, _refusal(_what, _name))
