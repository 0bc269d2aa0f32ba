"""The delay of a first round that ends when joins stop arriving, and never later than Kafka's."""

from __future__ import annotations

from tests.unit.group.world import SESSION_MS, World, joined

from kohort.group.classic.group import Phase
from kohort.group.commands import Leaving
from kohort.group.events import GenerationFormed
from kohort.model.cause import CauseKind

DELAY_MS, QUIET_MS = 3_000, 100


def quiet_world(**settings: int) -> World:
    return World(**{"initial_rebalance_delay_ms": DELAY_MS, "initial_quiet_ms": QUIET_MS, **settings})


def formed(world: World) -> GenerationFormed:
    (event,) = [event for event in world.events if isinstance(event, GenerationFormed)]
    return event


def test_delay_ends_when_no_join_has_come_for_a_while() -> None:
    world = quiet_world()
    _, join = world.enter()
    world.advance(QUIET_MS - 1)
    assert join.is_waiting
    world.advance(1)
    assert joined(join).generation == 1
    assert formed(world).cause.kind is CauseKind.JOINS_STOPPED


def test_each_join_starts_the_quiet_anew() -> None:
    world = quiet_world()
    joins = []
    for _ in range(5):
        joins.append(world.enter()[1])
        world.advance(QUIET_MS - 1)
    assert all(join.is_waiting for join in joins)
    world.advance(1)
    assert len(joined(joins[0]).members) == 5


def test_joins_that_come_slowly_are_waited_for_a_quarter_of_the_time_they_took() -> None:
    world = quiet_world()
    joins = []
    for _ in range(9):
        joins.append(world.enter()[1])
        world.advance(QUIET_MS - 1)
    world.advance(1 + QUIET_MS * 8 // 4 - QUIET_MS - 3)
    assert all(join.is_waiting for join in joins)
    world.advance(QUIET_MS)
    assert len(joined(joins[0]).members) == 9


def test_member_on_its_way_with_an_issued_id_is_waited_for() -> None:
    world = quiet_world()
    _, first = world.enter()
    pending = world.join().result.member_id
    world.advance(QUIET_MS * 5)
    assert first.is_waiting
    second = world.join(pending)
    world.advance(QUIET_MS * 5 // 4)
    assert joined(first).generation == joined(second).generation == 1


def test_issued_id_that_leaves_is_waited_for_no_longer() -> None:
    world = quiet_world()
    _, first = world.enter()
    pending = world.join().result.member_id
    world.advance(QUIET_MS * 3)
    world.leave(Leaving(pending))
    world.advance(QUIET_MS)
    assert joined(first).generation == 1


def test_unused_issued_id_costs_kafkas_delay_and_no_more() -> None:
    world = quiet_world()
    _, first = world.enter()
    world.join()
    world.advance(DELAY_MS - 1)
    assert first.is_waiting
    world.advance(1)
    assert joined(first).generation == 1
    assert formed(world).cause.kind is CauseKind.INITIAL_DELAY_OVER


def test_quiet_longer_than_the_delay_changes_nothing() -> None:
    world = quiet_world(initial_quiet_ms=DELAY_MS * 2)
    _, join = world.enter()
    world.advance(DELAY_MS)
    assert joined(join).generation == 1
    assert formed(world).cause.kind is CauseKind.INITIAL_DELAY_OVER


def test_joins_that_never_stop_end_when_kafkas_delay_would() -> None:
    world = quiet_world()
    _, first = world.enter(rebalance_timeout_ms=7_000)
    for _ in range(7_000 // 50 - 1):
        world.advance(50)
        world.enter(rebalance_timeout_ms=7_000)
    assert first.is_waiting
    world.advance(50)
    assert len(joined(first).members) == 7_000 // 50


def test_round_of_a_group_that_has_a_generation_forms_as_soon_as_all_have_joined() -> None:
    world = quiet_world()
    leader, follower = world.stable(2)
    forced = world.join(leader)
    assert joined(world.join(follower)).generation == joined(forced).generation == 2


def test_group_that_empties_before_it_is_quiet_ends_empty() -> None:
    world = quiet_world()
    member, _ = world.enter()
    world.leave(Leaving(member))
    world.advance(QUIET_MS)
    assert (world.group().phase, world.group().generation) == (Phase.EMPTY, 1)
    assert not world.timers


def test_group_that_empties_and_fills_again_is_quiet_again() -> None:
    world = quiet_world()
    (member,) = world.stable(1)
    world.leave(Leaving(member))
    world.advance(SESSION_MS)
    _, join = world.enter()
    world.advance(QUIET_MS)
    assert joined(join).generation == 3
