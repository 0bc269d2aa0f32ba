"""A failing plan is made small, and the line that is printed brings the small one back."""

from __future__ import annotations

from collections.abc import Callable

from kohort.cli.main import parser_for
from kohort.cli.sim import cut
from kohort.sim.scenario.shrinking import replay, shrink
from kohort.sim.scenario.world_plan import SECOND_US, Broken, WorldPlan, WorldStep
from kohort.sim.swarm.seed_plan import draw_plan

DRAWN = draw_plan(1)
PLAN = DRAWN._replace(
    end_us=45 * SECOND_US,
    steps=tuple(WorldStep(number, 2 * number * SECOND_US, "burst", "t", (("count", 1),)) for number in range(1, 21)),
)


def broken(invariant: str | None = "Withholding", at_us: int = 40 * SECOND_US) -> Broken | None:
    return None if invariant is None else Broken(invariant, "it is so", at_us, 1)


FIRST = Broken("Withholding", "it is so", 40 * SECOND_US, 1)


def breaking(needed: set[int], invariant: str = "Withholding") -> Callable[[WorldPlan], Broken | None]:
    """Return a world that breaks where all these steps are."""

    def run(plan: WorldPlan) -> Broken | None:
        is_broken = needed <= {step.number for step in plan.steps}
        return broken(invariant if is_broken else None)

    return run


def test_only_the_steps_that_a_failure_needs_are_left() -> None:
    shrunk = shrink(PLAN, FIRST, breaking({2, 5, 11}))
    assert [step.number for step in shrunk.plan.steps] == [2, 5, 11]
    assert shrunk.broken.invariant == "Withholding"


def test_a_failure_that_needs_nothing_has_no_steps() -> None:
    shrunk = shrink(PLAN, FIRST, breaking(set()))
    assert shrunk.plan.steps == ()


def test_another_invariant_is_another_failure() -> None:
    def run(plan: WorldPlan) -> Broken | None:
        return broken("Withholding" if plan == PLAN else "CommitFenced")

    assert shrink(PLAN, FIRST, run).plan == PLAN


def test_what_comes_after_the_failure_is_left_out_at_once() -> None:
    tried: list[int] = []
    at_us = 6 * SECOND_US

    def run(plan: WorldPlan) -> Broken | None:
        tried.append(len(plan.steps))
        return broken("Withholding", at_us)

    shrink(PLAN, FIRST._replace(at_us=at_us), run)
    assert tried[0] == sum(step.at_us is None or step.at_us <= at_us for step in PLAN.steps)


def test_the_healing_comes_as_soon_as_it_may() -> None:
    def run(plan: WorldPlan) -> Broken | None:
        return broken("Withholding" if plan.end_us >= 9 * SECOND_US else None)

    shrunk = shrink(PLAN.only([2, 5]), FIRST, run)
    assert shrunk.plan.end_us < PLAN.end_us


def test_a_shrinking_ends_after_so_many_worlds() -> None:
    assert shrink(PLAN, FIRST, breaking({2, 11}), tries=7).tries == 7


def test_the_printed_line_gives_the_plan_that_was_found() -> None:
    small = DRAWN.only([2, 3]).until(DRAWN.end_us - SECOND_US)
    for plan in (DRAWN, small, DRAWN.only([])):
        words = replay(plan, DRAWN).split()[1:]
        assert cut(parser_for(words).parse_args(words)) == (DRAWN, plan)
