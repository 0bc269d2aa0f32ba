"""Lets the time of a user's world pass, action by action, until an invariant is broken or time is up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kohort.model.ids import TopicPartition
from kohort.sim.checks import InvariantBroken, all_checkers
from kohort.sim.checks.checker import NO_DEFECT
from kohort.sim.checks.invariants import CONVERGES_AFTER_HEALING
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.kernel.world_observer import Observer, Observers
from kohort.sim.programs.program import CURRENT
from kohort.sim.programs.virtual_loop import outside_of_loops
from kohort.sim.scenario.member_census import MemberCensus
from kohort.sim.scenario.world_plan import SECOND_US, WorldPlan
from kohort.sim.users.effect_checks import EffectChecker


class WorldBroken(AssertionError):
    """A broken invariant. `invariant` is its name, `at_us` and `event` are its time."""

    def __init__(self, invariant: str, sentence: str, at_us: int, event: int) -> None:
        super().__init__(f"{invariant}: {sentence}")
        self.invariant = invariant
        self.sentence = sentence
        self.at_us = at_us
        self.event = event


class _FirstViolation(Observers):
    """Calls all observers, and stores the first violation instead of raising it: client code must not swallow it."""

    violated: InvariantBroken | None = None

    def _all_of(self, name: str) -> Callable[..., None]:
        call_all = super()._all_of(name)

        def call(*arguments: Any) -> None:
            if self.violated is None:
                try:
                    call_all(*arguments)
                except InvariantBroken as error:
                    self.violated = error

        return call


class WorldDriver:
    """The time, the observers and the verdict of one world. Whatever lets time pass raises `WorldBroken`."""

    def __init__(self, plan: WorldPlan, observers: Iterable[Observer]) -> None:
        self.scheduler = Scheduler()
        self.census = MemberCensus()
        self.effects = EffectChecker()
        self.checkers = [*all_checkers(plan.seed), self.effects]
        self.observer = _FirstViolation([*observers, self.census, *self.checkers])
        self._failure: tuple[str, BaseException] | None = None
        self._defect: str | None = None

    # -- what breaks it

    def record_effect(self, program: str, partition: TopicPartition, offsets: Iterable[int]) -> None:
        """Check records that took effect in a program; a violation is raised later, outside of the program."""
        try:
            for offset in offsets:
                self.effects.effect(program, partition, offset)
        except InvariantBroken as error:
            self.observer.violated = self.observer.violated or error

    def fail(self, program: str, error: BaseException) -> None:
        """Note a program that ended with an exception of its own."""
        self._failure = self._failure or (program, error)

    def note_defect(self, text: str) -> None:
        """Note an error that production code has logged as its own defect."""
        self._defect = self._defect or text

    def raise_broken(self) -> None:
        """Raise `WorldBroken` if anything broke the world."""
        if self.observer.violated is not None:
            violation = self.observer.violated
            raise self.broken(violation.invariant.name, violation.sentence) from None
        if self._failure is not None:
            program, error = self._failure
            raise self.broken("ProgramFailed", f"{program} ended with {type(error).__name__}: {error}") from error
        if self._defect is not None:
            raise self.broken(NO_DEFECT, self._defect)

    def broken(self, invariant: str, sentence: str) -> WorldBroken:
        """Return a failure of now."""
        return WorldBroken(invariant, sentence, self.scheduler.now_us, self.scheduler.events)

    # -- time

    def pass_until(self, when_us: int) -> None:
        """Let everything happen that is due up to a time of the world."""
        self.run(lambda: False, when_us)

    def pass_while(self, condition: Callable[[], bool], missing: Callable[[], str | None]) -> None:
        """Let time pass while a condition is true; raise with what is missing after two minutes."""
        self.run(lambda: not condition(), self.scheduler.now_us + 120 * SECOND_US)
        if condition():
            raise self.broken(CONVERGES_AFTER_HEALING.name, f"nothing came of it in 120 s: {missing()}")

    def run(self, is_over: Callable[[], bool], until_us: int | None) -> None:
        """Run actions until `is_over`, until a time, or until nothing is left to happen."""
        if (program := CURRENT.get(None)) is not None and not program.is_over:
            raise RuntimeError("the test lets time pass, not the program: await asyncio.sleep() there")
        scheduler, stepped = self.scheduler, self.observer.stepped
        with outside_of_loops():
            while True:
                if is_over():
                    return
                next_us = scheduler.next_us()
                if next_us is None or (until_us is not None and next_us > until_us):
                    break
                scheduler.step()
                stepped()
                if self.observer.violated is not None or self._failure is not None or self._defect is not None:
                    self.raise_broken()
        if until_us is not None:
            scheduler.run_until(until_us)
