"""One instance of a user's program: a host of the world, and the program's process on it while there is one.

Whoever runs programs starts them again when they crash: after a `KafkaError`, a timeout or a lost connection a new
process begins a little later. Any other exception is the program's defect and ends the world.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from kohort.model.errors import KafkaError
from kohort.sim.programs.program import Program
from kohort.sim.scenario.simulated_cluster import Seat
from kohort.sim.scenario.world_plan import SECOND_US, MemberPlan

if TYPE_CHECKING:
    from kohort.sim.users.program_cluster import UserStage

Main = Callable[["Instance"], Coroutine[Any, Any, object]]

PASSING = (KafkaError, TimeoutError, OSError)
"""What a program may crash of: the world, not itself."""


class Instance(Seat):
    """One instance. `name` is `app-1`, `app-2` and so on; `number` the same as a number."""

    def __init__(self, stage: UserStage, plan: MemberPlan, variants: tuple[MemberPlan, ...]) -> None:
        super().__init__(stage, plan, variants)
        self.number = int(plan.name.rpartition("-")[2])
        self.program: Program | None = None
        self.crashes = 0
        self.last_crash: BaseException | None = None
        self.main: Main | None = None
        self.is_finished = False
        """Whether it is not to come back: its work is done."""
        self._past: list[Program] = []
        self._world = stage
        self._luck: Random = stage.draw.stream(f"{plan.name}/crashes")

    @property
    def is_running(self) -> bool:
        """Whether a process is there, even one that is on its way out."""
        return self.program is not None and not self.program.is_over

    @property
    def is_up(self) -> bool:
        """Whether a process is there that means to stay."""
        return self.program is not None and not self.program.is_over and not self.program.is_stopping

    @property
    def programs(self) -> list[Program]:
        """Every process there was, the oldest first."""
        return [*self._past, *([self.program] if self.program is not None else [])]

    def start(self) -> None:
        """Begin a process, unless one runs."""
        main = self.main
        if self.is_running or main is None:
            return
        if self.program is not None:
            self._past.append(self.program)
        self.has_started = True
        self.is_closing = False
        self._births += 1
        world = self._world
        random = world.draw.stream(f"{self.name}/{self._births}")
        self.program = Program(
            self.name, self.host, world.network, random, world.observer, lambda: main(self), self._ended
        )

    def close(self) -> None:
        """Tell the process to stop in good order."""
        if self.program is not None and not self.program.is_over:
            self.is_closing = True
            self.program.stop()

    def kill(self) -> None:
        """End the process where it stands."""
        if self.program is not None:
            self.program.kill()

    def change(self) -> None:
        """Stay the same program."""

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Take no notice: the program subscribes to what it wants."""

    def behave(self) -> None:
        """Take no notice: what the program does is its own."""

    def _ended(self, error: BaseException | None) -> None:
        if error is None:
            if not self.is_closing:
                self.is_finished = self.stays_away = True
            elif self._world.is_healed and not self.is_finished:
                self.start()
            return
        self.crashes += 1
        self.last_crash = error
        if isinstance(error, PASSING):
            delay_us = SECOND_US + self._luck.randrange(2 * SECOND_US)
            self._world.scheduler.after(delay_us, self._start_again)
        else:
            self._world.failed(self, error)

    def come_back(self) -> None:
        """Be there when the world is healed, for however long a fault had it stay away."""
        if not self.is_finished:
            self.stays_away = False

    def _start_again(self) -> None:
        if not self.stays_away:
            self.start()
