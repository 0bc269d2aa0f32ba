"""What each restart of a plan costs, when the plan is played."""

from __future__ import annotations

import pytest
from tests.unit.what_if.groups import group

from kohort.assign.server.catalog import server_assignors
from kohort.group.member_kinds import Cost
from kohort.group.migration.migration_plan import Goal, Limits, LiveGroup, Restart, make_plan
from kohort.what_if.group_facts import Facts, Times
from kohort.what_if.rolling import costs_of

LIMITS = Limits(True, server_assignors(["uniform"])["uniform"], "bidirectional", 3, 100, 100)


def costs(found: LiveGroup, goal: Goal) -> tuple[Cost, ...]:
    def played(found: LiveGroup, restarts: tuple[Restart, ...]) -> list[Cost]:
        return costs_of(Facts(found), Times(), restarts, None, lambda _: None)

    return make_plan(found, LIMITS, goal, costs=played).costs  # type: ignore[arg-type]


def test_native_member_that_restarts_moves_what_it_had_twice() -> None:
    first, _ = costs(group("a", "b", each=3, kind="consumer"), Goal.CLASSIC)
    # Away: its three go to b. Back: three go to it.
    assert first.moves == 6


def test_cooperative_members_move_less_than_eager_ones() -> None:
    calm = costs(group("a", "b", "c", assignor="cooperative-sticky"), Goal.CONSUMER)
    costly = costs(group("a", "b", "c"), Goal.CONSUMER)
    assert [each.moves for each in calm] == [8, 8, 8]
    assert sum(each.moves for each in calm) < sum(each.moves for each in costly)


def test_static_member_moves_nothing_and_reads_nothing_while_it_is_away() -> None:
    for each in costs(group("a", "b", "c", kind="consumer", is_static=True), Goal.CLASSIC)[:2]:
        assert each.unread_partition_s == pytest.approx(40, rel=0.05)


def test_only_member_costs_all_partitions_while_it_is_away() -> None:
    (only,) = costs(group("a", each=6), Goal.CONSUMER)
    assert only.moves == 0
    assert only.unread_partition_s == pytest.approx(60, rel=0.02)


def test_two_rounds_of_restarts_lead_to_a_cooperative_group() -> None:
    found = costs(group("a", "b", "c"), Goal.COOPERATIVE)
    assert len(found) == 6
    assert found[-1].moves == 8
