"""One instance of a user's program: a host of the world, and the program's process on it while there is one.

As under an orchestrator, a crashed program is started again: after a `KafkaError`, a timeout or a lost connection a new
process begins a little later. Any other exception is the program's defect and ends the world.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from kohort.model.errors import KafkaError
from kohort.sim.programs.observed_members import ObservedMember
from kohort.sim.programs.program import Program
from kohort.sim.scenario.simulated_cluster import Seat, SimulatedCluster
from kohort.sim.scenario.world_plan import SECOND_US, MemberPlan

Main = Callable[["Instance"], Coroutine[Any, Any, object]]

PASSING = (KafkaError, TimeoutError, OSError)
"""Exceptions that the world may cause; any other is the program's defect."""


class Instance(Seat):
    """One instance. `name` is `app-1`, `app-2` and so on; `number` the same as a number."""

    def __init__(
        self, cluster: SimulatedCluster, plan: MemberPlan, failed: Callable[[str, BaseException], None]
    ) -> None:
        super().__init__(cluster, plan)
        self.number = int(plan.name.rpartition("-")[2])
        self.program: Program | None = None
        self.crashes = 0
        self.last_crash: BaseException | None = None
        self.main: Main | None = None
        self.is_finished = False
        """Whether its work is done, so that it does not come back."""
        self._past: list[Program] = []
        self._failed = failed
        self._random = cluster.rng.stream(f"{plan.name}/crashes")

    @property
    def is_running(self) -> bool:
        """Whether a process exists, even one that is being closed."""
        return self.program is not None and not self.program.is_over

    @property
    def is_up(self) -> bool:
        """Whether a process exists that is not being closed."""
        return self.program is not None and not self.program.is_over and not self.program.is_stopping

    @property
    def programs(self) -> list[Program]:
        """Every process so far, the oldest first."""
        return [*self._past, *([self.program] if self.program is not None else [])]

    @property
    def members(self) -> list[ObservedMember]:
        """The group members of its newest process."""
        return [] if self.program is None else list(self.program.client.members.values())

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
        cluster = self._cluster
        random = cluster.rng.stream(f"{self.name}/{self._births}")
        self.program = Program(
            self.name, self.host, cluster.network, random, cluster.observer, lambda: main(self), self._ended
        )

    def close(self) -> None:
        """Ask the process to end in good order."""
        if self.program is not None and not self.program.is_over:
            self.is_closing = True
            self.program.stop()

    def kill(self) -> None:
        """End the process where it stands."""
        if self.program is not None:
            self.program.kill()

    def come_back(self) -> None:
        """Be there when the world is healed, for however long a fault had it stay away."""
        if not self.is_finished:
            self.stays_away = False

    def _ended(self, error: BaseException | None) -> None:
        if error is None:
            if not self.is_closing:
                self.is_finished = self.stays_away = True
            elif self._cluster.is_healed and not self.is_finished:
                self.start()
            return
        self.crashes += 1
        self.last_crash = error
        if isinstance(error, PASSING):
            delay_us = SECOND_US + self._random.randrange(2 * SECOND_US)
            self._cluster.scheduler.after(delay_us, self._start_again)
        else:
            self._failed(self.name, error)

    def _start_again(self) -> None:
        if not self.stays_away:
            self.start()
