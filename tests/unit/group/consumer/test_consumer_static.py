"""Static members of a consumer group: they leave for a while, come back, are replaced, and nothing moves."""

from __future__ import annotations

from tests.unit.group.consumer_world import ConsumerWorld, heartbeat_result, parts

from kohort.group.events import (
    ConsumerMemberDeleted,
    ConsumerMemberOut,
    ConsumerMemberStored,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
)
from kohort.group.group_timers import session_timer
from kohort.model.errors import ErrorCode

ALL = "foo-0,1,2,3,4,5 bar-0,1,2"


def away() -> ConsumerWorld:
    """A group of the static member A of the instance `a`, which has left for a while, and of B."""
    world = ConsumerWorld()
    world.enters("A", instance_id="a")
    world.enters("B")
    world.settles()
    heartbeat_result(world.goes("A", -2, instance_id="a"))
    return world


def test_new_static_member_bumps_the_epoch() -> None:
    world = ConsumerWorld()
    world.stable_with("B")
    world.enters("A", instance_id="a")
    assert world.consumer_group().epoch == 3
    assert world.consumer_group().static_members == {"a": "A"}


def test_member_that_leaves_for_a_while_keeps_its_partitions_and_the_epoch_stays() -> None:
    world = away()
    assert world.consumer_group().epoch == 3
    member = world.member("A")
    assert (member.epoch, member.state, world.assigned("A")) == (-2, MemberState.STABLE, member.target)
    assert {epoch for held in member.assigned for epoch in held.epochs} == {0}
    assert world.goes("A", -2, instance_id="a").result.member_epoch == -2


def test_leaving_for_a_while_twice_writes_nothing_more() -> None:
    world = away()
    before = len(world.log)
    assert world.goes("A", -2, instance_id="a").error is ErrorCode.NONE
    assert len(world.log) == before


def test_leaving_temporarily_frees_partitions_that_were_to_be_revoked() -> None:
    world = ConsumerWorld()
    world.enters("A", instance_id="a")
    world.enters("B")
    world.beats("A", ALL)
    assert world.state("A") == (2, MemberState.UNREVOKED_PARTITIONS)
    world.goes("A", -2, instance_id="a")
    assert world.woken == ["B"]
    assert world.beats("B").assignment == world.member("B").target
    assert set(world.timers) == {session_timer("g", "A"), session_timer("g", "B")}


def test_instance_that_comes_back_gets_what_it_had_under_its_new_id() -> None:
    world = away()
    had = world.assigned("A")
    before = len(world.log)
    result = world.enters("A2", instance_id="a")
    assert (result.member_epoch, result.assignment) == (3, had)
    assert world.consumer_group().epoch == 3
    assert world.consumer_group().members.keys() == {"A2", "B"}
    assert [type(record) for record in world.log[before]] == [
        MemberAssignmentDeleted,
        MemberTargetDeleted,
        ConsumerMemberDeleted,
        ConsumerMemberStored,
        MemberTargetStored,
        MemberAssignmentStored,
    ]
    assert world.assignor.seen[-1].members.keys() == {"A", "B"}, "no target was computed"


def test_instance_that_comes_back_under_its_old_id_gets_what_it_had() -> None:
    world = away()
    had = world.assigned("A")
    result = world.enters("A", instance_id="a")
    assert (result.member_epoch, result.assignment) == (3, had)
    assert world.consumer_group().epoch == 3


def test_static_member_that_rejoins_with_other_topics_bumps_the_epoch() -> None:
    world = away()
    result = world.enters("A2", "foo", instance_id="a")
    assert world.consumer_group().epoch == 4
    assert all(topic_id.startswith(b"foo") for topic_id, _ in result.assignment or ())


def test_instance_that_comes_back_after_a_new_target_goes_to_it_at_once() -> None:
    world = away()
    world.plans(A="foo-0 bar-0", B="foo-1,2 bar-1", C="foo-3,4,5 bar-2")
    world.enters("C")
    world.plans(A2="foo-0 bar-0", B="foo-1,2 bar-1", C="foo-3,4,5 bar-2")
    result = world.enters("A2", instance_id="a")
    assert (result.member_epoch, world.member("A2").state) == (4, MemberState.STABLE)
    assert result.assignment == parts("foo-0 bar-0")


def test_partitions_of_an_instance_that_is_away_are_not_given_to_others() -> None:
    world = away()
    had = world.assigned("A")
    world.plans(A="foo-0", B="foo-1,2,3,4,5 bar-0,1,2")
    world.beats("B", subscribed_topic_names=("bar", "foo", "more"))
    assert world.state("B")[1] is MemberState.UNRELEASED_PARTITIONS
    assert world.assigned("A") == had


def test_instance_that_is_alive_keeps_its_place() -> None:
    world = ConsumerWorld()
    world.enters("A", instance_id="a")
    answer = world.comes("A2", instance_id="a")
    assert answer.error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert "A" in answer.result.error_message
    assert world.consumer_group().members.keys() == {"A"}


def test_static_member_whose_join_was_answered_in_vain_joins_again() -> None:
    world = ConsumerWorld()
    world.enters("A", instance_id="a")
    before = len(world.log)
    result = world.enters("A", instance_id="a")
    assert (result.member_epoch, result.assignment) == (2, parts(ALL))
    assert len(world.log) == before


def test_superseded_member_is_fenced_when_it_heartbeats_and_when_it_leaves() -> None:
    world = away()
    world.enters("A2", instance_id="a")
    assert world.heartbeat_of("A", 3, instance_id="a").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.goes("A", -1, instance_id="a").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.goes("A", -2, instance_id="a").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat_of("A", 3).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_unknown_instance_is_an_unknown_member() -> None:
    world = ConsumerWorld()
    world.enters("A")
    assert world.heartbeat_of("A", 2, instance_id="x").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.goes("A", -2, instance_id="x").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_names_an_instance_it_is_not_cannot_leave() -> None:
    world = ConsumerWorld()
    world.enters("A", instance_id="a")
    assert world.goes("A", -1, instance_id="x").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.consumer_group().members.keys() == {"A"}


def test_member_that_is_away_cannot_heartbeat_before_it_joins() -> None:
    world = away()
    assert world.heartbeat_of("A", 3, instance_id="a").error is ErrorCode.FENCED_MEMBER_EPOCH


def test_static_member_that_does_not_return_within_its_session_is_evicted() -> None:
    world = away()
    world.advance(40_000)
    world.beats("B")
    world.advance(6_000)
    assert world.consumer_group().members.keys() == {"B"}
    assert world.consumer_group().epoch == 4
    assert world.woken == ["B"]
    out = next(event for event in world.events if isinstance(event, ConsumerMemberOut))
    cause = "it left for a while and did not return within 45.0 s"
    assert (out.silent_ms, out.cause.detail) == (-1, cause), "it had sent a LeaveGroup of static members"


def test_static_member_that_leaves_for_good_is_gone() -> None:
    world = away()
    world.enters("A2", instance_id="a")
    world.goes("A2", -1, instance_id="a")
    assert world.consumer_group().members.keys() == {"B"}
    assert not world.consumer_group().static_members
    assert world.goes("A2", -1, instance_id="a").error is ErrorCode.NONE


def test_member_of_one_instance_cannot_take_another() -> None:
    world = away()
    assert world.comes("B", instance_id="a").error is ErrorCode.UNRELEASED_INSTANCE_ID


def test_instance_that_comes_back_with_topics_has_no_expression_and_no_vote_any_more() -> None:
    world = ConsumerWorld()
    world.enters("A", "bar", subscribed_topic_regex="foo.*", server_assignor="scripted", rack_id="r", instance_id="a")
    world.settles()
    heartbeat_result(world.goes("A", -2, instance_id="a"))
    assert world.enters("B", "bar", instance_id="a").assignment == parts("bar-0,1,2")
    member = world.member("B")
    assert (member.subscribed_topic_regex, member.server_assignor, member.rack_id) == ("", None, None)
    assert not world.consumer_group().regexes
