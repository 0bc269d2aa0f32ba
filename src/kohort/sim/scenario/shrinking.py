"""Shrinks a failing plan: fewer steps, a shorter time, and still the same invariant broken.

Delta debugging (Zeller's ddmin) over the numbered steps; each has a random stream under its own number, so the steps
that stay do what they did. The result is named by the seed and the numbers, so one command line runs it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kohort.sim.scenario.world_plan import SECOND_US, Broken, WorldPlan

TRIES = 400
"""How many worlds a shrinking may run."""

Runs = Callable[[WorldPlan], Broken | None]
"""Runs a plan, and returns what broke it."""


class Shrunk(NamedTuple):
    """The smallest plan found, what breaks it, and how many worlds were run."""

    plan: WorldPlan
    broken: Broken
    tries: int


class _Shrinking:
    def __init__(self, plan: WorldPlan, broken: Broken, runs: Runs, tries: int) -> None:
        self.plan = plan
        self.broken = broken
        self.left = tries
        self._runs = runs

    def take(self, plan: WorldPlan) -> bool:
        """Take a plan over if it breaks the same invariant; return whether it does."""
        if self.left <= 0:
            return False
        self.left -= 1
        broken = self._runs(plan)
        if broken is None or broken.invariant != self.broken.invariant:
            return False
        self.plan, self.broken = plan, broken
        return True

    def numbers(self) -> list[int]:
        return [step.number for step in self.plan.steps]

    def drop_later(self) -> None:
        """Leave out the steps after the failure."""
        before = [step for step in self.plan.steps if step.at_us is None or step.at_us <= self.broken.at_us]
        if len(before) < len(self.plan.steps):
            self.take(self.plan.only(step.number for step in before))

    def drop_parts(self) -> None:
        """Leave out parts, from halves down to single steps, until each step that is left is needed."""
        parts = 2
        while (numbers := self.numbers()) and self.left > 0:
            for part in _split(numbers, parts):
                if self.take(self.plan.only(number for number in numbers if number not in part)):
                    parts = max(2, parts - 1)
                    break
            else:
                if parts >= len(numbers):
                    return
                parts = min(len(numbers), parts * 2)

    def shorten(self) -> None:
        """Let the healing begin sooner: right after the failure, or after the last step, rounded to a second."""
        last_us = max((step.at_us or 0 for step in self.plan.steps), default=0)
        for end_us in (last_us + SECOND_US, last_us + 5 * SECOND_US, last_us + 15 * SECOND_US, self.broken.at_us + 1):
            end_us = -(-end_us // SECOND_US) * SECOND_US
            if end_us < self.plan.end_us and self.take(self.plan.until(end_us)):
                return


def shrink(plan: WorldPlan, broken: Broken, runs: Runs, tries: int = TRIES) -> Shrunk:
    """Return a smaller plan that breaks the same invariant."""
    shrinking = _Shrinking(plan, broken, runs, tries)
    shrinking.drop_later()
    shrinking.drop_parts()
    shrinking.shorten()
    shrinking.drop_parts()
    return Shrunk(shrinking.plan, shrinking.broken, tries - shrinking.left)


def replay(plan: WorldPlan, whole: WorldPlan) -> str:
    """Return the command line that runs a plan which was cut out of the whole one of its seed."""
    words = ["kohort sim --seed", str(plan.seed)]
    if plan.gateways:
        words += ["--gateways", str(len(plan.gateways))]
    if plan.producers:
        words += ["--producers", str(len(plan.producers))]
    if plan.steps != whole.steps:
        words += ["--only", ",".join(str(step.number) for step in plan.steps) or "none"]
    if plan.end_us != whole.end_us:
        words += ["--until", f"{plan.end_us / SECOND_US:g}"]
    return " ".join(words)


def _split(numbers: Sequence[int], parts: int) -> list[frozenset[int]]:
    size = -(-len(numbers) // parts)
    return [frozenset(numbers[start : start + size]) for start in range(0, len(numbers), size)]
