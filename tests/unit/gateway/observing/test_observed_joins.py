"""A gateway reports the joins that its cluster's brokers refused, by their answers, and refuses none by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from tests.unit.gateway.observing.test_look_ups import World

from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import Join
from kohort.group.describe import DescribedGroup, DescribedMember
from kohort.group.events import JoinRefused
from kohort.group.join_refusals import REFUSALS, why_refused
from kohort.group.results import JoinResult
from kohort.model.errors import ErrorCode

TWO = tuple(DescribedMember(each, None, "", "", b"", b"t:0") for each in ("m1", "m2"))


def given_two() -> World:
    world = World()
    world.groups.described(DescribedGroup("g", Phase.STABLE, "consumer", "range", TWO), 1, 0)
    return world


def join(member_id: str = "m1", session_timeout_ms: int = 6_000, protocols: Iterable[str] = ("range",)) -> Join:
    offered = tuple((name, b"other topics") for name in protocols)
    return Join("g", member_id, None, "", "", session_timeout_ms, 6_000, "consumer", offered, "", "")


def refusals(world: World) -> list[ErrorCode]:
    return [event.error for event in world.events if isinstance(event, JoinRefused)]


def group_of(world: World) -> ClassicGroup:
    group = world.groups.group("g")
    assert group is not None
    return group


@pytest.mark.parametrize("session_timeout_ms", [1, 4_000, 2**31 - 1])
def test_a_session_timeout_that_our_broker_would_refuse_is_the_cluster_s_to_judge(session_timeout_ms: int) -> None:
    """Clusters have other limits than the default ones: the member was taken for one that had not joined."""
    world = given_two()
    world.groups.joins.sent(join(session_timeout_ms=session_timeout_ms), 1)
    assert refusals(world) == []
    assert group_of(world).awaiting_join == {"m1"}


def test_a_leader_that_was_not_seen_offers_what_was_chosen() -> None:
    """Without it the others seemed to share no assignor with it, and their next joins to be refused."""
    world = World()
    world.groups.joins.answered(join("m2"), JoinResult(ErrorCode.NONE, "m2", 1, "consumer", "range", "m1"), 0)
    world.groups.joins.sent(replace(join("m2"), protocols=(("range", b"new topics"),)), 1)
    assert group_of(world).awaiting_join == {"m2"}


def test_a_join_that_seems_to_be_refused_is_not_reported_before_it_is() -> None:
    world = given_two()
    world.groups.joins.sent(join(protocols=["sticky"]), 1)
    assert refusals(world) == []


@pytest.mark.parametrize("error", sorted(REFUSALS))
def test_a_join_that_a_broker_refuses_is_reported(error: ErrorCode) -> None:
    world = given_two()
    world.groups.joins.sent(join(), 1)
    world.groups.joins.answered(join(), JoinResult(error, "m1"), 2)
    assert refusals(world) == [error]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ErrorCode.INVALID_SESSION_TIMEOUT, "its session timeout is 4000 ms; its broker takes no such one"),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, "as many members are in already as its broker takes"),
    ],
)
def test_limits_of_other_brokers_are_not_named(error: ErrorCode, text: str) -> None:
    world = given_two()
    world.groups.joins.answered(join(session_timeout_ms=4_000), JoinResult(error, "m1"), 1)
    (refused,) = (event for event in world.events if isinstance(event, JoinRefused))
    assert why_refused(world.groups.shard, refused).text == text
