"""What is known of a group goes through the states of one table."""

from __future__ import annotations

from tests.unit.gateway.observing.test_look_ups import CLASSIC, World

from kohort.gateway.observing.group_knowledge import Certainty
from kohort.group.classic.group import Phase
from kohort.group.commands import Heartbeat, Join
from kohort.model.errors import ErrorCode


def certainty(world: World) -> Certainty:
    return world.groups.look_ups.certainty("g")


def join(world: World) -> Join:
    """The only member joins again, and so a round is predicted."""
    command = Join("g", "m1", None, "", "", 6_000, 6_000, "consumer", (("range", b"other topics"),), "", "")
    world.groups.joins.sent(command, 1)
    return command


def test_a_round_is_predicted_until_an_answer_has_its_generation() -> None:
    world = World()
    assert certainty(world) is Certainty.UNKNOWN
    world.groups.described(CLASSIC, 3, 0)
    assert certainty(world) is Certainty.CONFIRMED
    join(world)
    assert certainty(world) is Certainty.PREDICTED


def test_a_group_that_answers_contradict_is_in_doubt_until_a_stable_one_is_found() -> None:
    world = World()
    world.groups.described(CLASSIC, 3, 0)
    for now_ms in (1, 2):
        assert certainty(world) is Certainty.CONFIRMED, "answers of several connections arrive in any order"
        world.groups.heartbeat_answered(Heartbeat("g", "m1", None, 4), ErrorCode.NONE, now_ms)
    assert certainty(world) is Certainty.LOOKED_UP
    world.groups.described(CLASSIC._replace(state=Phase.PREPARING_REBALANCE), 4, 3)
    assert certainty(world) is Certainty.IN_DOUBT
    world.gateway.tick(10_000)
    world.groups.look_ups.begun("g", 10_000)
    assert certainty(world) is Certainty.LOOKED_UP
    world.groups.described(CLASSIC, 4, 10_001)
    assert certainty(world) is Certainty.CONFIRMED


def test_nothing_is_remembered_of_a_group_that_is_in_no_doubt() -> None:
    world = World()
    world.differs_elsewhere(2, 1)
    assert not world.groups.look_ups.known, "a group that is not known here stays unknown"
    world.groups.described(CLASSIC, 3, 0)
    world.differs_elsewhere(2, 1)
    assert world.groups.look_ups.known
    world.groups.described(CLASSIC, 3, 2)
    assert not world.groups.look_ups.known
