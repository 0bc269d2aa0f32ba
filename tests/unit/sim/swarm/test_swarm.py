"""A seed decides everything, and what it decides can be done."""

from __future__ import annotations

from kohort.node.configuration.config import Config
from kohort.sim.peers.client_kinds import KINDS
from kohort.sim.scenario.fault_menu import MENU
from kohort.sim.scenario.world_plan import show
from kohort.sim.swarm.seed_plan import FAMILIES, MIXES, draw_plan

SEEDS = range(300)


def test_a_seed_gives_one_plan() -> None:
    assert draw_plan(7) == draw_plan(7)
    assert draw_plan(7) != draw_plan(8)


def test_every_broker_setting_that_is_drawn_is_one_that_brokers_take() -> None:
    for seed in SEEDS:
        settings = dict(draw_plan(seed).settings)
        config = Config(settings)
        numbers = {name: float(text) for name, text in settings.items() if text.replace(".", "").isdigit()}
        assert {name: config.get(name) for name in numbers} == numbers


def test_every_kind_of_step_and_member_is_drawn() -> None:
    plans = [draw_plan(seed, gateways=seed % 3, producers=seed % 2) for seed in SEEDS]
    drawn = {step.what for plan in plans for step in plan.steps}
    carried_out = {"start", "kill", "close", "freeze"} | {fault.name for fault in MENU if " member" not in fault.name}
    assert drawn == carried_out
    kinds = {member.kind.name for plan in plans for group in (plan.members, *plan.variants) for member in group}
    assert kinds == set(KINDS) - {"cooperative-v0"}, "that one is what a step makes of a member"


def test_gateways_change_neither_the_members_of_a_seed_nor_what_else_happens() -> None:
    plain, with_gateways = draw_plan(7), draw_plan(7, gateways=2)
    assert with_gateways.gateways == ("gw1", "gw2")
    assert with_gateways.members == plain.members
    others = [step[1:] for step in with_gateways.steps if "gateway" not in step.what]
    assert others == [step[1:] for step in plain.steps]


def test_producers_change_neither_the_members_of_a_seed_nor_what_else_happens() -> None:
    plain, with_producers = draw_plan(7), draw_plan(7, producers=2)
    assert [each.name for each in with_producers.producers] == ["x1", "x2"]
    assert with_producers.members == plain.members
    others = [
        step[1:] for step in with_producers.steps if step.subject not in ("x1", "x2") and step.what != "stragglers"
    ]
    assert others == [step[1:] for step in plain.steps]


def test_streams_change_neither_the_names_nor_the_steps_of_a_seed() -> None:
    plain, streaming = draw_plan(7, streams=False), draw_plan(7, streams=True)
    assert {member.kind.protocol for member in streaming.members} == {"streams"}
    assert [member.name for member in streaming.members] == [member.name for member in plain.members]
    others = [step[1:] for step in streaming.steps if step.what != "configure streams"]
    assert [step for step in others if step[1] != "configure group"] == [step[1:] for step in plain.steps]


def test_members_of_one_group_begin_with_kinds_that_may_be_together() -> None:
    for seed in SEEDS:
        plan = draw_plan(seed)
        for group in plan.groups:
            offers = [set(member.kind.assignors) for member in plan.members if member.group == group]
            classic = [member.kind for member in plan.members if member.group == group]
            if all(kind.protocol == "classic" for kind in classic):
                assert set.intersection(*offers), f"seed {seed}: nothing in common in {group}"


def test_steps_are_numbered_in_the_order_of_time() -> None:
    for seed in SEEDS:
        steps = draw_plan(seed).steps
        assert [step.number for step in steps] == list(range(1, len(steps) + 1))
        times = [-1 if step.at_us is None else step.at_us for step in steps]
        assert times == sorted(times)


def test_what_is_left_out_of_a_plan_leaves_the_rest_as_it_was() -> None:
    plan = draw_plan(7)
    kept = plan.only([2, 4])
    assert [step for step in plan.steps if step.number in (2, 4)] == list(kept.steps)
    assert kept.members == plan.members


def test_a_plan_is_shown_line_by_line_with_the_numbers_to_ask_for() -> None:
    plan = draw_plan(7)
    lines = list(show(plan))
    assert lines[0].startswith(f"seed 7: {len(plan.steps)} steps")
    numbered = [line.split()[0] for line in lines[-len(plan.steps) :]]
    assert numbered == [str(step.number) for step in plan.steps]


def test_every_mix_is_somebodys() -> None:
    assert len({mix.name for mix in MIXES}) == len(MIXES)
    assert all(family in {"eager", *FAMILIES} for mix in MIXES for family in (*mix.kinds, *mix.bounces))
