"""`group.max.size`: who is in when more come than the group takes, and who comes back."""

from __future__ import annotations

import pytest
from tests.unit.group.world import Answer, World, joined

from kohort.group.classic.group import Phase
from kohort.group.commands import OpenRound
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

SIZE = 3
DELAY_MS = 50
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


def a_world() -> World:
    return World(max_size=SIZE, initial_rebalance_delay_ms=DELAY_MS)


def issued(world: World) -> list[str]:
    """Ask for one id more than the group takes: the group is Empty, so no member is refused yet."""
    answers = [world.join() for _ in range(SIZE + 1)]
    assert {answer.error for answer in answers} == {ErrorCode.MEMBER_ID_REQUIRED}
    assert world.group().phase is Phase.EMPTY
    return [answer.result.member_id for answer in answers]


def split(answers: list[Answer]) -> tuple[int, int]:
    """Return how many are in and how many were refused for the size."""
    errors = [answer.error for answer in answers]
    assert set(errors) <= {ErrorCode.NONE, FULL}
    return errors.count(ErrorCode.NONE), errors.count(FULL)


def test_ids_beyond_the_size_are_issued_and_the_last_to_use_its_own_is_refused() -> None:
    world = a_world()
    ids = issued(world)
    answers = [world.join(member_id) for member_id in ids]
    assert [answer.is_waiting for answer in answers] == [True, True, True, False]
    world.gather()
    assert split(answers) == (SIZE, 1)
    assert world.group().pending == set()
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    again = [world.join(member_id) for member_id in ids]
    assert split(again) == (SIZE, 1), "members inside are answered again, the stranger is still refused"
    assert world.group().generation == 1


@pytest.mark.parametrize("is_static", [False, True])
def test_members_that_need_no_id_first_are_taken_up_to_the_size(is_static: bool) -> None:
    world = a_world()
    instances = [f"i{number}" if is_static else None for number in range(SIZE + 1)]
    answers = [world.join(instance_id=instance, is_two_step=False) for instance in instances]
    world.gather()
    assert split(answers) == (SIZE, 1)
    ids = [answer.result.member_id for answer in answers]
    assert ids[-1] == "", "a refused member has no id"
    again = [world.join(ids[at], instance_id=instances[at], is_two_step=False) for at in range(SIZE + 1)]
    assert split(again) == (SIZE, 1)
    assert len(world.group().members) == SIZE


def test_members_that_wait_may_join_again_although_the_group_is_full() -> None:
    world = a_world()
    ids = issued(world)
    first = [world.join(member_id) for member_id in ids]
    again = [world.join(member_id) for member_id in ids]
    assert [answer.error for answer in first] == [ErrorCode.REBALANCE_IN_PROGRESS] * SIZE + [FULL]
    world.gather()
    assert split(again) == (SIZE, 1)
    assert len(world.group().members) == SIZE


def test_group_over_its_maximum_size_keeps_the_members_that_rejoin_first() -> None:
    world = World()
    ids = world.stable(SIZE + 2)
    world.settings = world.shard.settings = a_world().settings
    world.submit(OpenRound("g", Cause(CauseKind.GROUP_TOO_LARGE, world.now_ms)))
    answers = [world.join(member_id) for member_id in ids]
    assert split(answers) == (SIZE, 2)
    assert set(world.group().members) == set(ids[:SIZE])
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    assert {joined(answer).generation for answer in answers[:SIZE]} == {2}
