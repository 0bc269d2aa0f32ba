"""A leader that cannot assign: each member of its generation receives the cause, and another member leads the next."""

from __future__ import annotations

from tests.unit.group.world import World, joined, synced

from kohort.group.classic.group import Phase
from kohort.group.classic.sync_group import LONGEST_FAILURE
from kohort.group.events import AssignmentFailed, GroupStored
from kohort.group.results import SyncResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode


def text(leader: str, failure: str = "no rack") -> str:
    return f"assignment by leader {leader} (client id c) failed: {failure}"


def test_failure_is_returned_to_the_leader_and_to_every_waiting_follower() -> None:
    world = World()
    leader, *followers = world.completing(3)
    waiting = [world.sync(follower) for follower in followers]
    own = world.sync(leader, failure="no rack")
    expected = SyncResult(ErrorCode.UNKNOWN_SERVER_ERROR, error_message=text(leader))
    assert [answer.result for answer in (own, *waiting)] == [expected] * 3
    assert world.group().phase is Phase.PREPARING_REBALANCE
    assert world.cause() == Cause(CauseKind.ASSIGNMENT_FAILED, world.now_ms, leader, "no rack")


def test_failure_is_an_event_and_stores_nothing() -> None:
    world = World()
    leader, _ = world.completing()
    before = len(world.log)
    world.sync(leader, failure="no rack")
    (failed,) = [event for event in world.events if isinstance(event, AssignmentFailed)]
    assert (failed.generation, failed.leader, failed.cause.detail) == (1, leader, "no rack")
    assert len(world.log) == before


def test_member_that_syncs_after_the_failure_receives_it_too() -> None:
    world = World()
    leader, follower = world.completing()
    world.sync(leader, failure="no rack")
    assert world.sync(follower).result.error_message == text(leader)
    assert world.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS


def test_failure_ends_with_the_next_generation() -> None:
    world = World()
    leader, follower = world.completing()
    world.sync(leader, failure="no rack")
    world.join(leader)
    world.join(follower)
    assert world.group().sync_failure is None
    world.settle([leader, follower])
    assert synced(world.sync(leader)).assignment == f"for {leader}".encode()


def test_another_member_leads_after_a_failure_and_the_first_leader_may_again_after_a_success() -> None:
    world = World()
    first, second = world.completing()
    world.sync(first, failure="no rack")
    rejoined = [world.join(first), world.join(second)]
    assert [joined(answer).leader for answer in rejoined] == [second, second]
    world.settle([first, second])
    assert world.group().failed_leaders == []


def test_leaders_that_all_fail_take_turns() -> None:
    world = World()
    members = world.completing(3)
    leaders = []
    for _ in range(7):
        leader = world.group().leader
        assert leader is not None
        leaders.append(leader)
        world.sync(leader, failure="never")
        for member in members:
            world.join(member)
    assert leaders == [*members, *members, members[0]]


def test_round_after_a_failure_waits_for_the_leader_that_failed() -> None:
    """So the leader's backoff sets the pace, and no member spins."""
    world = World()
    leader, follower = world.completing()
    world.sync(leader, failure="no rack")
    others = world.join(follower)
    world.advance(1_000)
    assert others.is_waiting
    world.join(leader)
    assert joined(others).generation == 2


def test_leader_that_fails_and_goes_is_forgotten() -> None:
    world = World()
    leader, follower = world.completing()
    world.sync(leader, failure="no rack")
    world.join(follower)
    world.advance(60_000)
    assert leader not in world.group().members
    assert world.group().failed_leaders == []


def test_follower_cannot_fail_the_round() -> None:
    world = World()
    _, follower = world.completing()
    assert world.sync(follower, failure="mutiny").is_waiting
    assert world.group().phase is Phase.COMPLETING_REBALANCE


def test_failure_of_an_assignment_that_is_stored_already_is_ignored() -> None:
    world = World()
    leader, _ = world.stable(2)
    assert synced(world.sync(leader, failure="late")).assignment == f"for {leader}".encode()


def test_failure_is_passed_on_no_longer_than_a_bound() -> None:
    world = World()
    (leader,) = world.completing(1)
    answer = world.sync(leader, failure="x" * 10_000)
    assert answer.result.error_message == text(leader, "x" * LONGEST_FAILURE)


def test_failed_generation_is_in_the_log_and_a_restart_awaits_its_leader_again() -> None:
    world = World()
    leader, _ = world.completing()
    world.sync(leader, failure="no rack")
    world.restart()
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    assert synced(world.sync(leader, assignments=((leader, b"x"),))).assignment == b"x"
    (stored,) = world.log[-1]
    assert isinstance(stored, GroupStored)
    assert stored.is_synced
