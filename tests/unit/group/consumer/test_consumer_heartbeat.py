"""Responses to heartbeats of the consumer protocol: malformed ones, epochs, repetitions, assignments."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.group.consumer_world import ConsumerWorld, heartbeat_result, parts

from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import ConsumerHeartbeat, Unload
from kohort.group.decisions import decide
from kohort.group.effects import Arm, Reply
from kohort.group.events import MemberState
from kohort.group.group_timers import session_timer
from kohort.model.errors import ErrorCode

STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)
JOINING = {"subscribed_topic_names": ("foo",), "rebalance_timeout_ms": 60_000, "owned": ()}


# -- what no group could take


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"group_id": ""}, "GroupId"),
        ({"member_id": ""}, "MemberId"),
        ({"member_id": "", "api_version": 0, "member_epoch": 3}, "MemberId"),
        ({"member_id": "", "api_version": 0, "member_epoch": -1}, "MemberId"),
        ({"instance_id": ""}, "InstanceId"),
        ({"rack_id": ""}, "RackId"),
        ({"rebalance_timeout_ms": -1}, "rebalance timeout"),
        ({"owned": None}, "owns no partitions"),
        ({"owned": parts("foo-0")}, "owns no partitions"),
        ({"subscribed_topic_names": None}, "subscribes to"),
        ({"member_epoch": -2}, "instance id"),
        ({"member_epoch": -3}, "epoch -3"),
    ],
)
def test_malformed_heartbeat_is_refused_with_the_reason(fields: dict[str, Any], why: str) -> None:
    world = ConsumerWorld()
    heartbeat = {"group_id": "g", "member_id": "A", "member_epoch": 0, **JOINING, **fields}
    answer = world.submit(ConsumerHeartbeat(**heartbeat))
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert why in answer.result.error_message
    assert not world.shard.groups


def test_unknown_assignor_is_refused_naming_the_known_ones() -> None:
    answer = ConsumerWorld().comes("A", server_assignor="mine")
    assert answer.error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "scripted" in answer.result.error_message


@pytest.mark.parametrize("epoch", [1, -1])
def test_group_that_does_not_exist_is_entered_with_epoch_0_only(epoch: int) -> None:
    world = ConsumerWorld()
    assert world.heartbeat_of("A", epoch).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert not world.shard.groups


def test_member_without_an_id_is_given_one_by_the_first_version() -> None:
    result = ConsumerWorld().enters("", api_version=0, new_member_id="made")
    assert result.member_id == "made"


def test_classic_group_is_no_consumer_group_to_a_member_of_one() -> None:
    world = ConsumerWorld()
    world.stable(1)
    assert world.heartbeat_of("A", 3).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_empty_classic_group_becomes_a_consumer_group() -> None:
    world = ConsumerWorld()
    world.enter()
    world.advance(400_000)
    assert isinstance(world.shard.groups["g"], ClassicGroup)
    world.enters("A")
    assert world.consumer_group().members.keys() == {"A"}


def test_group_of_offsets_alone_becomes_a_consumer_group_and_keeps_them() -> None:
    world = ConsumerWorld()
    world.commit()
    world.enters("A")
    assert world.consumer_group().members.keys() == {"A"}
    assert world.shard.offsets["g"]


def test_empty_consumer_group_becomes_a_classic_group_when_a_classic_member_joins() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.goes("A")
    world.stable(2)
    assert len(world.group().members) == 2


def test_unknown_member_does_not_make_an_empty_consumer_group_classic() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.goes("A")
    assert world.join("stranger").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.consumer_group().epoch == 3


def test_group_that_was_given_up_has_its_coordinator_elsewhere() -> None:
    world = ConsumerWorld()
    world.enters("A")
    world.submit(Unload("g"))
    assert not world.timers
    assert world.heartbeat_of("A", 2).error is ErrorCode.NOT_COORDINATOR
    assert world.comes("B").error is ErrorCode.NOT_COORDINATOR


# -- epochs


def test_unknown_member_must_join() -> None:
    world = ConsumerWorld()
    world.enters("A")
    assert world.heartbeat_of("B", 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_newer_epoch_than_the_members_own_is_fenced() -> None:
    world = ConsumerWorld()
    world.enters("A")
    assert world.tries("A", epoch=3).error is ErrorCode.FENCED_MEMBER_EPOCH


def advanced() -> ConsumerWorld:
    """A member that has gone from epoch 2 to 3, and may have missed that it did."""
    world = ConsumerWorld()
    world.stable_with("A")
    world.plans(A="foo-0,1,2", B="foo-3,4,5")
    world.enters("B")
    world.beats("A", "foo-0,1,2,3,4,5 bar-0,1,2")
    assert world.beats("A", "foo-0,1,2").member_epoch == 3
    return world


@pytest.mark.parametrize("owned", ["foo-0,1,2", "foo-1", "", None])
def test_epoch_before_its_own_is_accepted_from_a_member_that_owns_no_more_than_it_was_granted(
    owned: str | None,
) -> None:
    result = advanced().beats("A", owned, epoch=2)
    assert (result.member_epoch, result.assignment) == (3, parts("foo-0,1,2"))


@pytest.mark.parametrize("owned", ["foo-3", "foo-0,1,2 bar-0"])
def test_epoch_before_its_own_is_fenced_from_a_member_that_owns_more(owned: str) -> None:
    assert advanced().tries("A", owned, epoch=2).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_repeated_heartbeat_is_answered_again_without_fencing() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.enters("B", "other")
    assert world.beats("A", epoch=2).member_epoch == 3
    assert world.beats("A", epoch=2).member_epoch == 3


def test_epoch_older_than_the_one_before_its_own_is_fenced() -> None:
    assert advanced().tries("A", "foo-0,1,2", epoch=1).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_repeated_heartbeat_returns_the_lost_response_again_though_the_target_changed() -> None:
    world = advanced()
    world.plans(A="foo-0", B="foo-1,2,3,4,5")
    world.beats("B", "foo-3,4,5")
    world.beats("B", subscribed_topic_names=("foo",))
    before = len(world.log)
    for _ in range(3):
        assert world.beats("A", "foo-0,1,2", epoch=2).member_epoch == 3
    assert len(world.log) == before
    assert world.beats("A", "foo-0,1,2").assignment == parts("foo-0")


# -- joining twice


def test_stable_member_joins_again_and_keeps_everything() -> None:
    world = ConsumerWorld()
    world.enters("A")
    before = len(world.log)
    result = world.enters("A")
    assert (result.member_epoch, result.assignment) == (2, parts("foo-0,1,2,3,4,5 bar-0,1,2"))
    assert len(world.log) == before


def test_member_that_must_revoke_and_joins_again_has_revoked() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.enters("B")
    world.beats("A", "foo-0,1,2,3,4,5 bar-0,1,2")
    assert world.state("A") == (2, UNREVOKED)
    result = world.enters("A")
    assert world.state("A") == (3, STABLE)
    assert result.assignment == world.assigned("A")


def test_waiting_member_joins_again_and_waits_on() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.enters("B")
    assert world.state("B") == (3, UNRELEASED)
    before = len(world.log)
    assert world.enters("B").assignment == ()
    assert world.state("B") == (3, UNRELEASED)
    assert len(world.log) == before


# -- saying the same twice

FULL = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("foo", "bar")}


def test_repeated_full_heartbeat_of_a_stable_member_returns_its_assignment_again() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    before = len(world.log)
    for _ in range(2):
        result = world.beats("A", "foo-0,1,2,3,4,5 bar-0,1,2", **FULL)
        assert (result.member_epoch, result.assignment) == (2, parts("foo-0,1,2,3,4,5 bar-0,1,2"))
    assert len(world.log) == before


def test_repeated_full_heartbeat_of_a_member_that_must_revoke_returns_its_assignment_again() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.enters("B")
    for _ in range(2):
        result = world.beats("A", "foo-0,1,2,3,4,5 bar-0,1,2", **FULL)
        assert world.state("A") == (2, UNREVOKED)
        assert result.assignment == world.assigned("A") != parts("foo-0,1,2,3,4,5 bar-0,1,2")


def test_repeated_acknowledgement_is_answered_alike() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.enters("B")
    world.beats("A")
    kept = world.member("A").assigned
    owned = " ".join(f"{held.topic_id.decode().rstrip('_')}-{','.join(map(str, held.partitions))}" for held in kept)
    first = world.beats("A", owned, **FULL)
    again = world.beats("A", owned, epoch=2, **FULL)
    assert (first.member_epoch, first.assignment) == (again.member_epoch, again.assignment)
    assert again.member_epoch == 3


def test_repeated_full_heartbeat_of_a_waiting_member_changes_nothing() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.enters("B")
    before = len(world.log)
    for _ in range(2):
        assert world.beats("B", "", **FULL).assignment == ()
    assert len(world.log) == before


# -- when a response has the assignment


def test_assignment_is_returned_only_for_a_join_a_full_request_or_a_changed_assignment() -> None:
    world = ConsumerWorld()
    joined = world.enters("A")
    assert joined.assignment == parts("foo-0,1,2,3,4,5 bar-0,1,2")
    assert world.beats("A").assignment is None
    assert world.beats("A", "foo-0,1,2,3,4,5 bar-0,1,2").assignment is None
    assert world.beats("A", "", **FULL).assignment == joined.assignment
    assert world.beats("A", "", subscribed_topic_names=("foo", "bar")).assignment is None
    assert world.beats("A", rebalance_timeout_ms=60_000).assignment is None
    world.plans(A="foo-1")
    assert world.beats("A", "foo-0,1,2,3,4,5 bar-0,1,2", subscribed_topic_names=("foo",)).assignment == parts("foo-1")


def test_member_without_partitions_receives_an_empty_assignment() -> None:
    world = ConsumerWorld()
    world.plans()
    assert world.enters("A").assignment == ()


def test_answer_carries_the_interval_of_heartbeats() -> None:
    world = ConsumerWorld(consumer_heartbeat_interval_ms=7_000)
    assert world.enters("A").heartbeat_interval_ms == 7_000
    assert world.beats("A").heartbeat_interval_ms == 7_000


def test_heartbeat_without_changes_is_one_response_and_a_longer_session() -> None:
    world = ConsumerWorld()
    world.enters("A")
    reply, arm = decide(world.shard, ConsumerHeartbeat("g", "A", 2), world.now_ms)
    assert isinstance(reply, Reply)
    assert is_quiet_without_assignment(reply.result)
    assert arm == Arm(session_timer("g", "A"), world.now_ms + 45_000)


def is_quiet_without_assignment(result: Any) -> bool:
    return result.is_quiet and not result.is_settling and result.assignment is None


def test_heartbeat_that_was_kept_does_not_lengthen_the_session() -> None:
    world = ConsumerWorld()
    world.enters("A")
    (reply,) = decide(world.shard, ConsumerHeartbeat("g", "A", 2, is_counted=True), world.now_ms)
    assert isinstance(reply, Reply)
    assert is_quiet_without_assignment(reply.result)


def test_heartbeat_of_a_waiting_member_is_quiet_and_settling() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.enters("B")
    result = world.beats("B")
    assert result.is_quiet
    assert result.is_settling


def test_member_that_must_revoke_is_settling_and_is_answered_at_once() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    world.enters("B")
    result = world.beats("A")
    assert not result.is_quiet
    assert result.is_settling
    again = world.beats("A")
    assert again.is_quiet
    assert again.is_settling


# -- the states of a group


def test_group_is_empty_then_assigning_then_reconciling_then_stable() -> None:
    world = ConsumerWorld()
    world.stable_with("A")
    assert world.consumer_group().state == "Stable"
    world.assignor.error = ValueError("no")
    world.enters("B")
    assert world.consumer_group().state == "Assigning"
    world.assignor.error = None
    world.advance(1_000)
    assert world.consumer_group().state == "Reconciling"
    world.settles()
    assert world.consumer_group().state == "Stable"
    world.goes("A")
    world.goes("B")
    assert world.consumer_group().state == "Empty"
    world.submit(Unload("g"))
    assert world.consumer_group().state == "Dead"


def test_error_of_a_failed_append_reaches_the_sender_and_nothing_happens() -> None:
    world = ConsumerWorld()
    world.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.comes("A").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not world.shard.groups
    world.append_error = None
    assert heartbeat_result(world.comes("A")).member_epoch == 2
