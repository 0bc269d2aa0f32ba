"""Why a known member joins again: the reasons that act (KIP-423), and what outranks them."""

from __future__ import annotations

import pytest
from tests.unit.group.world import RANGE, World, joined, says

from kohort.group.classic.group import Phase
from kohort.group.describe import describe
from kohort.group.events import RebalanceAvoided
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode


def test_leader_rejoining_blind_keeps_the_generation_and_need_not_assign_again() -> None:
    world = World()
    leader, follower = world.stable(2)
    answer = joined(world.join(leader, reason="blind"))
    assert (answer.generation, answer.leader, answer.skip_assignment) == (1, leader, True)
    assert [member.member_id for member in answer.members] == sorted([leader, follower])
    assert world.group().phase is Phase.STABLE
    assert world.sync(leader).result.assignment == f"for {leader}".encode()


def test_assignment_of_a_blind_leader_that_cannot_skip_is_ignored() -> None:
    world = World()
    leader, follower = world.stable(2)
    answer = joined(world.join(leader, reason="blind", can_skip_assignment=False))
    assert (answer.generation, answer.skip_assignment, len(answer.members)) == (1, False, 2)
    ignored = ((leader, b"all of it"), (follower, b""))
    assert world.sync(leader, assignments=ignored).result.assignment == f"for {leader}".encode()


def test_avoided_rebalance_is_an_event_and_is_counted() -> None:
    world = World()
    leader, _ = world.stable(2)
    world.join(leader, reason="blind")
    world.join(leader, reason="blind")
    avoided = [event for event in world.events if isinstance(event, RebalanceAvoided)]
    assert avoided[0].cause == Cause(CauseKind.LEADER_REJOINED, world.now_ms, leader, "blind")
    described = describe(world.shard, "g")
    assert described is not None
    assert described.rebalances_avoided == len(avoided) == 2


def test_blind_follower_keeps_its_generation_as_on_kafka_and_nothing_was_avoided() -> None:
    world = World()
    _, follower = world.stable(2)
    assert joined(world.join(follower, reason="blind")).generation == 1
    assert world.group().rebalances_avoided == 0


def test_leader_that_lost_its_response_receives_it_again_while_it_computes() -> None:
    world = World()
    leader, _ = world.completing()
    again = joined(world.join(leader, reason="blind"))
    assert (again.generation, len(again.members), again.skip_assignment) == (1, 2, False)


def test_change_outranks_blind() -> None:
    world = World()
    leader, _ = world.stable(2)
    assert world.join(leader, reason="blind", protocols=(("range", b"other"),)).is_waiting
    assert world.cause().kind is CauseKind.SUBSCRIPTION_CHANGED


def test_change_outranks_changed_topics() -> None:
    world = World()
    leader, _ = world.stable(2)
    offer = (*RANGE, ("sticky", b""))
    assert world.join(leader, reason="topic_metadata_change", protocols=offer).is_waiting
    assert world.cause().kind is CauseKind.PROTOCOL_CHANGED


def test_leader_that_saw_topics_change_starts_a_round() -> None:
    world = World()
    leader, follower = world.stable(2)
    assert world.join(leader, reason="topic_metadata_change").is_waiting
    assert (world.cause().kind, world.cause().member_id) == (CauseKind.TOPIC_METADATA_CHANGED, leader)
    assert world.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS


def test_leader_that_sees_topics_change_before_it_has_assigned_just_goes_on() -> None:
    world = World()
    leader, _ = world.completing()
    assert joined(world.join(leader, reason="topic_metadata_change")).generation == 1


def test_follower_may_not_report_that_topics_changed() -> None:
    world = World()
    _, follower = world.stable(2)
    assert joined(world.join(follower, reason="topic_metadata_change")).generation == 1
    assert world.group().phase is Phase.STABLE


@pytest.mark.parametrize("reason", ["", "Blind", "rebalance failed due to REBALANCE_IN_PROGRESS"])
def test_leader_with_any_other_reason_or_none_starts_a_round_as_on_kafka(reason: str) -> None:
    world = World()
    leader, _ = world.stable(2)
    assert world.join(leader, reason=reason).is_waiting
    assert (world.cause().kind, world.cause().detail) == (CauseKind.LEADER_REJOINED, reason)


def test_generation_in_a_subscription_is_no_change_to_who_says_that_nothing_changed() -> None:
    world = World()
    leader, _ = world.stable(2, protocols=says("t"))
    assert joined(world.join(leader, reason="blind", protocols=says("t", "", 1))).generation == 1
    assert world.join(leader, reason="blind", protocols=says("t", "t-0", 1)).is_waiting


def test_generation_in_a_subscription_is_a_change_to_others_as_on_kafka() -> None:
    world = World()
    _, follower = world.stable(2, protocols=says("t"))
    assert world.join(follower, protocols=says("t", "", 1)).is_waiting


def test_generation_in_a_subscription_is_no_change_before_there_is_an_assignment() -> None:
    world = World()
    _, follower = world.completing(protocols=says("t"))
    assert joined(world.join(follower, protocols=says("t", "", 1))).generation == 1
    assert world.group().phase is Phase.COMPLETING_REBALANCE


def test_opaque_metadata_is_compared_byte_by_byte() -> None:
    world = World()
    _, follower = world.completing(protocols=says("t"), protocol_type="connect")
    changed = world.join(follower, protocols=says("t", "", 1), protocol_type="connect")
    assert changed.is_waiting
