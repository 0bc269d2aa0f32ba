"""One process of a user's program in a simulated world: its main coroutine on a loop of its own, watched from outside.

It ends as a real one does: its main returns or raises, it is stopped (SIGTERM, else SIGINT, else its main is
cancelled) and killed if it takes too long, or it is killed where it stands. What is left of a killed process stays as
it is, without a word, until the world is over and `close` takes it apart.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from random import Random
from typing import Any

from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import Network
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.programs.observed_members import ObservedClient
from kohort.sim.programs.virtual_loop import VirtualLoop

GRACE_US = 30_000_000
"""How long a process may take to stop."""

Ended = Callable[[BaseException | None], None]
"""Called when the main coroutine is over, with what it raised."""


CURRENT: ContextVar[Program] = ContextVar("CURRENT")
"""Whose code runs: set in every task of a program, and in what they run in executors."""


class Program:
    """A process; it begins at once."""

    def __init__(
        self,
        name: str,
        host: Host,
        network: Network,
        random: Random,
        observer: Observer,
        main: Callable[[], Coroutine[Any, Any, object]],
        ended: Ended,
    ) -> None:
        self.name = name
        self.is_over = False
        self.is_stopping = False
        self.client = ObservedClient(name, observer)
        self.began_us = host.scheduler.now_us
        self._host = host
        self._network = network
        self._ended = ended
        host.boot()
        self.loop = VirtualLoop(host, network, random)
        self.loop.environment.observer = self.client
        self.loop.environment.program = self
        context = copy_context()
        context.run(CURRENT.set, self)
        self._main = self.loop.create_task(self._run(main), name=name, context=context)

    def kill(self) -> None:
        """End it where it stands; its kernel resets its connections."""
        if not self.is_over:
            self._end("killed")

    def stop(self) -> None:
        """Stop it in good order, as a deployment does."""
        if self.is_over or self.is_stopping:
            return
        self.is_stopping = True
        self._host.after_us(GRACE_US, self._run_out_of_time)
        if not self.loop.receive(signal.SIGTERM) and not self.loop.receive(signal.SIGINT):
            self.loop.call_soon(self._main.cancel)

    def close(self) -> None:
        """Take apart what is left of it; nothing that it still does then has an effect."""
        if not self.is_over:
            self._end("killed")
        self.loop.close()

    async def _run(self, main: Callable[[], Coroutine[Any, Any, object]]) -> None:
        raised: BaseException | None = None
        try:
            await main()
        except asyncio.CancelledError as error:
            raised = None if self.is_stopping else error
        except BaseException as error:
            raised = error
        await self._cancel_the_rest()
        self._end("closed" if raised is None else f"failed: {type(raised).__name__}: {raised}")
        self._ended(raised)

    async def _cancel_the_rest(self) -> None:
        """Do with the tasks that are left what `asyncio.run` does."""
        left = [task for task in self.loop.living() if task is not self._main]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _run_out_of_time(self) -> None:
        if not self.is_over:
            self._end("killed")
            self._ended(None)

    def _end(self, how: str) -> None:
        self.is_over = True
        self.client.die(how)
        self._network.close_all(self._host)
        self._host.kill()
