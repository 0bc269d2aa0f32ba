"""Who comes to a consumer group, what members say of themselves, and what of it takes the group's epoch on."""

from __future__ import annotations

from tests.unit.group.consumer_world import ConsumerWorld, Scripted, heartbeat_result, parts, topic_id

from kohort.group.events import (
    ConsumerGroupStored,
    ConsumerMemberStored,
    MemberAssignmentStored,
    MemberState,
    MemberTargetStored,
    TargetStored,
)
from kohort.group.group_timers import session_timer
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode


def epoch_cause(world: ConsumerWorld) -> tuple[CauseKind, str | None, str]:
    cause = world.consumer_group().epoch_cause
    assert cause is not None
    return cause.kind, cause.member_id, cause.detail


# -- coming


def test_first_member_is_granted_everything_in_the_answer_to_its_join() -> None:
    world = ConsumerWorld()
    result = world.enters("A")
    assert (result.member_id, result.member_epoch, result.heartbeat_interval_ms) == ("A", 2, 5_000)
    assert result.assignment == parts("foo-0,1,2,3,4,5 bar-0,1,2")
    assert [[type(record) for record in records] for records in world.log] == [
        [ConsumerMemberStored, ConsumerGroupStored],
        [MemberTargetStored, TargetStored],
        [MemberAssignmentStored],
    ]
    assert world.timers == {session_timer("g", "A"): world.now_ms + 45_000}
    assert epoch_cause(world) == (CauseKind.MEMBER_JOINED, "A", "")


def test_member_that_joins_a_running_group_takes_its_epoch_and_its_target_on() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.plans(A="foo-0,1,2 bar-0", B="foo-3,4,5 bar-1,2")
    result = world.enters("B")
    assert (result.member_epoch, result.assignment) == (3, ())
    assert world.consumer_group().epoch == world.consumer_group().assignment_epoch == 3
    assert world.member("B").target == parts("foo-3,4,5 bar-1,2")
    assert world.woken == ["A", "B"]


def test_member_that_subscribes_to_nothing_may_be_in_the_group() -> None:
    world = ConsumerWorld()
    result = world.enters("A", subscribed_topic_names=())
    assert (result.member_epoch, result.assignment) == (2, ())


def test_full_group_refuses_another_member_but_not_one_that_is_in() -> None:
    world = ConsumerWorld(consumer_max_size=2)
    world.enters("A")
    world.enters("B", instance_id="b")
    answer = world.comes("C")
    assert answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.comes("D", instance_id="d").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.enters("A")
    world.goes("B", -2, instance_id="b")
    world.enters("E", instance_id="b")
    assert world.consumer_group().members.keys() == {"A", "E"}


def test_topics_that_do_not_exist_are_subscribed_to_in_vain_until_they_do() -> None:
    world = ConsumerWorld()
    assert world.enters("A", "later").assignment == ()
    world.topic_changes("later", 1)
    assert world.woken == ["A"]
    assert world.beats("A").assignment == parts("later-0")


def test_names_are_a_set() -> None:
    world = ConsumerWorld()
    world.enters("A", "foo", "bar", "foo")
    before = len(world.log)
    world.beats("A", subscribed_topic_names=("bar", "foo"))
    assert len(world.log) == before


# -- saying something new


def test_other_topics_bump_the_epoch_and_the_response_has_the_new_assignment() -> None:
    world = ConsumerWorld()
    world.enters("A", "foo")
    result = world.beats("A", "foo-0,1,2,3,4,5", subscribed_topic_names=("foo", "bar"))
    assert (result.member_epoch, result.assignment) == (3, parts("foo-0,1,2,3,4,5 bar-0,1,2"))
    assert epoch_cause(world) == (CauseKind.SUBSCRIPTION_CHANGED, "A", "+bar")


def test_topic_that_is_unsubscribed_is_revoked() -> None:
    world = ConsumerWorld()
    world.enters("A")
    result = world.beats("A", "foo-0,1,2,3,4,5 bar-0,1,2", subscribed_topic_names=("foo",))
    assert (result.member_epoch, result.assignment) == (2, parts("foo-0,1,2,3,4,5"))
    assert world.state("A") == (2, MemberState.UNREVOKED_PARTITIONS)
    assert world.beats("A", "foo-0,1,2,3,4,5").member_epoch == 3
    assert epoch_cause(world) == (CauseKind.SUBSCRIPTION_CHANGED, "A", "-bar")


def test_topic_that_is_unsubscribed_is_revoked_before_there_is_a_new_target() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.assignor.error = ValueError("no")
    result = world.beats("A", subscribed_topic_names=("foo",))
    assert (result.member_epoch, result.assignment) == (2, parts("foo-0,1,2,3,4,5"))
    assert world.state("A") == (2, MemberState.UNREVOKED_PARTITIONS)


def test_rack_host_and_timeouts_are_stored_and_change_nothing_for_the_group() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.beats("A", rack_id="r", rebalance_timeout_ms=9_000, client_id="c", client_host="/h")
    (record,) = world.last_records()
    assert isinstance(record, ConsumerMemberStored)
    assert (record.rack_id, record.rebalance_timeout_ms, record.client_host) == ("r", 9_000, "/h")
    assert world.consumer_group().epoch == 2


def test_what_is_left_out_has_not_changed() -> None:
    world = ConsumerWorld()
    world.enters("A", rack_id="r", server_assignor="scripted", client_id="c", client_host="/h")
    before = len(world.log)
    world.beats("A", server_assignor="scripted", client_id="c", client_host="/h")
    assert len(world.log) == before
    assert world.member("A").rack_id == "r"


def test_several_subscription_changes_in_one_request_bump_the_epoch_once() -> None:
    world = ConsumerWorld()
    world.enters("A", "foo")
    world.beats("A", subscribed_topic_names=("bar",), subscribed_topic_regex="fo+", rack_id="r")
    assert world.consumer_group().epoch == 3


# -- votes for an assignor


def test_another_assignor_of_the_group_bumps_the_epoch() -> None:
    other = Scripted("other")
    world = ConsumerWorld()
    world.settings.assignors["other"] = other  # type: ignore[index]
    world.enters("A", server_assignor="scripted")
    world.enters("B", server_assignor="scripted")
    world.beats("A", server_assignor="other")
    assert (world.consumer_group().epoch, other.seen) == (3, [])
    world.beats("B", server_assignor="other")
    assert world.consumer_group().epoch == 4
    assert len(other.seen) == 1
    assert epoch_cause(world) == (CauseKind.ASSIGNOR_CHANGED, "B", "other")


# -- standby copies


def test_lags_alone_are_stored_and_lags_with_a_reason_bump_the_epoch() -> None:
    world = ConsumerWorld()
    world.enters("A")
    far, near = (((topic_id("foo"), ((0, 90_000),)),), ((topic_id("foo"), ((0, 900),)),))
    world.beats("A", lags=far)
    assert (world.member("A").lags, world.consumer_group().epoch) == (far, 2)
    world.beats("A", lags=near, reason="standby_caught_up")
    assert (world.member("A").lags, world.consumer_group().epoch) == (near, 3)
    assert epoch_cause(world) == (CauseKind.STANDBY_LAG, "A", "standby_caught_up")
    seen = world.assignor.seen[-1].members["A"]
    assert (seen.lags, seen.reason) == (near, "standby_caught_up")


def test_repeated_lags_with_a_reason_change_nothing_more() -> None:
    world = ConsumerWorld()
    world.enters("A")
    lags = ((topic_id("foo"), ((0, 900),)),)
    for _ in range(2):
        heartbeat_result(world.tries("A", lags=lags, reason="standby_falling_behind"))
    assert world.consumer_group().epoch == 3


def test_any_other_reason_is_only_a_text() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.beats("A", lags=((topic_id("foo"), ((0, 1),)),), reason="because")
    assert world.consumer_group().epoch == 2
