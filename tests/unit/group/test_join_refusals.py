"""Refused joins are events that change no group, and name the members that stand in the way."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.group.mixed import Mixed
from tests.unit.group.world import World

from kohort.group.classic.group import Phase
from kohort.group.events import JoinRefused
from kohort.group.join_refusals import Why, why_refused
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import encode_subscription


def refused(world: World) -> tuple[ErrorCode, Why]:
    """The only refusal so far, and why it was."""
    (event,) = [event for event in world.events if isinstance(event, JoinRefused)]
    return event.error, why_refused(world.shard, event)


def test_assignor_that_others_do_not_offer_names_them() -> None:
    world = World()
    ids = sorted(world.stable(2))
    assert world.join(protocols=(("sticky", b"t"), ("own", b"t"))).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    error, why = refused(world)
    assert error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    others = f"{ids[0]} (range), {ids[1]} (range)"
    text = f"it offers sticky,own, and these members offer none that all have: {others}"
    assert why == Why(text, tuple(ids))
    assert world.group().phase is Phase.STABLE


def test_only_members_that_lack_the_assignor_are_in_the_way() -> None:
    world = World()
    both = (("range", b"t"), ("sticky", b"t"))
    (first, _) = world.enter(protocols=both)
    world.gather()
    world.settle([first])
    (second, _) = world.enter()
    world.join(first, protocols=both)
    world.settle([first, second])
    world.join(protocols=(("sticky", b"t"),))
    assert refused(world)[1].member_ids == (second,)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        (
            {"protocol_type": "connect"},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "it is of protocol type 'connect', and the group of 'consumer'",
        ),
        (
            {"session_timeout_ms": 5},
            ErrorCode.INVALID_SESSION_TIMEOUT,
            "its session timeout is 5 ms; this broker takes 6000 to 1800000",
        ),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "it offers no assignor"),
    ],
)
def test_join_that_does_not_fit_the_group_is_refused_with_a_reason(
    changes: dict[str, Any], error: ErrorCode, text: str
) -> None:
    world = World()
    world.stable(1)
    world.join(**changes)
    assert refused(world) == (error, Why(text))


def test_refused_join_of_a_full_group_has_its_maximum_size() -> None:
    world = World(max_size=2)
    world.stable(2)
    world.join()
    assert refused(world)[1].text == "2 members are in already, which is the limit of this broker"


def test_refused_join_of_a_replaced_instance_names_the_newer_member() -> None:
    world = World()
    waiting = world.join(instance_id="i")
    world.gather()
    (old,) = world.settle([waiting.result.member_id])
    new = world.join(instance_id="i").result.member_id
    assert world.join(old, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert refused(world)[1] == Why(f"instance i is {new} now, a newer process", (new,))


def test_refusal_makes_no_group() -> None:
    world = World()
    world.join(session_timeout_ms=5)
    assert (world.shard.groups, refused(world)[0]) == ({}, ErrorCode.INVALID_SESSION_TIMEOUT)


@pytest.mark.parametrize("error", [ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID])
def test_steps_of_the_protocol_are_no_refusals(error: ErrorCode) -> None:
    world = World()
    answer = world.join("stranger" if error is ErrorCode.UNKNOWN_MEMBER_ID else "")
    assert answer.error is error
    assert not [event for event in world.events if isinstance(event, JoinRefused)]


def test_native_member_that_meets_old_metadata_is_refused_for_the_sake_of_the_old_members() -> None:
    world = Mixed()
    old = encode_subscription(Subscription(("t",), version=0))
    (member_id,) = world.completing(1, protocols=(("range", old),))
    world.sync(member_id)
    assert world.native("n", 0, owned=(), subscribed_topic_names=("t",)).error is ErrorCode.INVALID_REQUEST
    error, why = refused(world)
    assert (error, why.member_ids) == (ErrorCode.INVALID_REQUEST, (member_id,))
    assert f"member {member_id} has embedded protocol version 0 where 3 is needed" in why.text


def test_refused_join_of_an_old_client_names_its_subscription_version() -> None:
    world = Mixed()
    world.native("n", 0, owned=(), subscribed_topic_names=("t",))
    old = encode_subscription(Subscription(("t",), version=0))
    assert world.join(protocols=(("range", old),)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused(world)[1] == Why("its subscription has version 0, a consumer group takes 3 or newer")
