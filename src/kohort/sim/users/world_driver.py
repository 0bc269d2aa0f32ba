"""How a user's world is driven: action by action, until something must not be, or time is up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kohort.group.invariants import CONVERGES_AFTER_HEALING
from kohort.sim.checks import InvariantBroken, all_checkers
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observer, Observers
from kohort.sim.programs.program import CURRENT
from kohort.sim.programs.virtual_loop import outside_of_loops
from kohort.sim.scenario.world_plan import SECOND_US, Plan
from kohort.sim.swarm.convergence import Census
from kohort.sim.users.effect_checks import EffectChecker
from kohort.sim.users.instance import Instance, Main
from kohort.sim.users.program_cluster import UserStage
from kohort.sim.users.program_convergence import lack
from kohort.sim.users.world_options import Wishes

NO_DEFECT = "NoDefect"


class WorldBroken(AssertionError):
    """Something that must not be. `invariant` is its name, `at_us` and `event` say when."""

    def __init__(self, invariant: str, sentence: str, at_us: int, event: int) -> None:
        super().__init__(f"{invariant}: {sentence}")
        self.invariant = invariant
        self.sentence = sentence
        self.at_us = at_us
        self.event = event


class _Watch(Observers):
    """Passes everything on, and keeps the first invariant that was broken: client code must not swallow it."""

    broken: InvariantBroken | None = None

    def _all_of(self, name: str) -> Callable[..., None]:
        tell_all = super()._all_of(name)

        def tell(*arguments: Any) -> None:
            if self.broken is None:
                try:
                    tell_all(*arguments)
                except InvariantBroken as error:
                    self.broken = error

        return tell


class Driven:
    """A world that can be driven. What breaks it is raised from whatever lets time pass."""

    def __init__(self, plan: Plan, wishes: Wishes, observers: Iterable[Observer]) -> None:
        self._plan = plan
        self._scheduler = Scheduler()
        self._census = Census()
        self._effects = EffectChecker()
        self.checkers = [*all_checkers(plan), self._effects]
        self._watch = _Watch([*observers, self._census, *self.checkers])
        self._failure: tuple[Instance, BaseException] | None = None
        self._stage = UserStage(plan, wishes, self._scheduler, self._watch, self._fail)
        self._main: Main | None = None
        self._defect: str | None = None

    def pass_until(self, when_us: int) -> None:
        """Let everything happen that is due up to a time of the world."""
        self._drive(lambda: False, when_us)

    def _drive(self, is_over: Callable[[], bool], until_us: int | None) -> None:
        if (program := CURRENT.get(None)) is not None and not program.is_over:
            raise RuntimeError("the test lets time pass, not the program: await asyncio.sleep() there")
        scheduler, stepped = self._scheduler, self._watch.stepped
        with outside_of_loops():
            while True:
                if is_over():
                    return
                next_us = scheduler.next_us()
                if next_us is None or (until_us is not None and next_us > until_us):
                    break
                scheduler.step()
                stepped()
                if self._watch.broken is not None or self._failure is not None or self._defect is not None:
                    self._raise_broken()
        if until_us is not None:
            scheduler.run_until(until_us)

    def _pass_while(self, condition: Callable[[], bool], seconds: float = 120.0) -> None:
        until_us = self._scheduler.now_us + round(seconds * SECOND_US)
        self._drive(lambda: not condition(), until_us)
        if condition():
            raise self._broken(CONVERGES_AFTER_HEALING.name, f"nothing came of it in {seconds:g} s: {self._lack()}")

    def _lack(self) -> str | None:
        return lack(self._stage, self._census, self._effects)

    def _fail(self, instance: Instance, error: BaseException) -> None:
        self._failure = self._failure or (instance, error)

    def note_defect(self, text: str) -> None:
        """Take what production code has logged as a defect of its own."""
        self._defect = self._defect or text

    def _raise_broken(self) -> None:
        if self._watch.broken is not None:
            violation = self._watch.broken.violation
            raise self._broken(violation.invariant.name, violation.sentence) from None
        if self._failure is not None:
            instance, error = self._failure
            raise self._broken(
                "ProgramFailed", f"{instance.name} ended with {type(error).__name__}: {error}"
            ) from error

        if self._defect is not None:
            raise self._broken(NO_DEFECT, self._defect)

    def _broken(self, invariant: str, sentence: str) -> WorldBroken:
        return WorldBroken(invariant, sentence, self._scheduler.now_us, self._scheduler.events)
