"""Makes a failing plan small: fewer steps, a shorter time, and still the same invariant broken.

Delta debugging (Zeller's ddmin) over the numbered steps; each draws its luck under its own number, so those that stay
do what they did. What comes out is named by the seed and the numbers, so that one line brings it back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kohort.sim.scenario.world_plan import SECOND_US, Plan
from kohort.sim.swarm.world_run import Outcome, run

TRIES = 400
"""How many worlds a shrinking may run."""


class Shrunk(NamedTuple):
    """The smallest plan found, what becomes of it, and how many worlds it took."""

    plan: Plan
    outcome: Outcome
    tries: int


class _Shrinking:
    def __init__(self, plan: Plan, outcome: Outcome, tries: int, runs: Callable[[Plan], Outcome]) -> None:
        assert outcome.broken is not None, "only a failure can be made smaller"
        self.plan = plan
        self.outcome = outcome
        self.invariant = outcome.broken.invariant
        self.left = tries
        self.tries = 0
        self._runs = runs

    def take(self, plan: Plan) -> bool:
        """Keep a plan if it breaks the same invariant; return whether it does."""
        if self.left <= 0:
            return False
        self.left -= 1
        self.tries += 1
        outcome = self._runs(plan)
        if outcome.broken is None or outcome.broken.invariant != self.invariant:
            return False
        self.plan, self.outcome = plan, outcome
        return True

    def numbers(self) -> list[int]:
        return [step.number for step in self.plan.steps]

    def drop_later(self) -> None:
        """Leave out what comes after the failure."""
        broken = self.outcome.broken
        assert broken is not None, "a plan that is kept is broken"
        before = [step for step in self.plan.steps if step.at_us is None or step.at_us <= broken.at_us]
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
        broken = self.outcome.broken
        assert broken is not None, "a plan that is kept is broken"
        for end_us in (last_us + SECOND_US, last_us + 5 * SECOND_US, last_us + 15 * SECOND_US, broken.at_us + 1):
            end_us = -(-end_us // SECOND_US) * SECOND_US
            if end_us < self.plan.end_us and self.take(self.plan.until(end_us)):
                return


def shrink(plan: Plan, outcome: Outcome, tries: int = TRIES, runs: Callable[[Plan], Outcome] = run) -> Shrunk:
    """Return a smaller plan that breaks the same invariant."""
    shrinking = _Shrinking(plan, outcome, tries, runs)
    shrinking.drop_later()
    shrinking.drop_parts()
    shrinking.shorten()
    shrinking.drop_parts()
    return Shrunk(shrinking.plan, shrinking.outcome, shrinking.tries)


def replay(plan: Plan, whole: Plan) -> str:
    """Return the command line that runs a plan which was cut out of the whole one of its seed."""
    words = ["kohort sim --seed", str(plan.seed)]
    if plan.steps != whole.steps:
        words += ["--only", ",".join(str(step.number) for step in plan.steps) or "none"]
    if plan.end_us != whole.end_us:
        words += ["--until", f"{plan.end_us / SECOND_US:g}"]
    return " ".join(words)


def _split(numbers: Sequence[int], parts: int) -> list[frozenset[int]]:
    size = -(-len(numbers) // parts)
    return [frozenset(numbers[start : start + size]) for start in range(0, len(numbers), size)]
