"""SyncGroup and Heartbeat: assignments handed in, taken and waited for; who is alive, and for how long."""

from __future__ import annotations

import pytest
from tests.unit.group.world import NOW, REBALANCE_MS, SESSION_MS, World, given, joined, synced

from kohort.group.classic.group import Phase
from kohort.group.commands import Heartbeat, Sync
from kohort.group.effects import Arm, Reply
from kohort.group.events import GroupStored, MemberRemoved, StoredMember
from kohort.group.group_timers import session_timer, sync_timer
from kohort.group.results import HeartbeatResult, SyncResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

STORED = GroupStored(
    group_id="g",
    protocol_type="consumer",
    generation=5,
    protocol_name="range",
    leader="a",
    state_timestamp_ms=1,
    members=(
        StoredMember("a", None, "c", "/h", REBALANCE_MS, SESSION_MS, b"topics", b"for a"),
        StoredMember("b", "i", "c", "/h", REBALANCE_MS, SESSION_MS, b"topics", b"for b"),
    ),
    cause=Cause(CauseKind.LEADER_SYNCED, 1, "a"),
)


def completing(world: World) -> tuple[str, str]:
    """Bring two members to where the leader must assign; return the leader's id and the other's."""
    (one, _), (two, _) = world.enter(), world.enter()
    world.gather()
    leader = world.group().leader
    assert leader is not None
    return (one, two) if leader == one else (two, one)


# -- heartbeat


def test_heartbeat_moves_the_session_and_nothing_else() -> None:
    given(STORED).when(Heartbeat("g", "a", None, 5), at_ms=NOW).then(
        Reply(HeartbeatResult(ErrorCode.NONE, is_quiet=True)),
        Arm(session_timer("g", "a"), NOW + SESSION_MS),
    )


@pytest.mark.parametrize(
    ("heartbeat", "error"),
    [
        (Heartbeat("", "a", None, 5), ErrorCode.INVALID_GROUP_ID),
        (Heartbeat("other", "a", None, 5), ErrorCode.UNKNOWN_MEMBER_ID),
        (Heartbeat("g", "x", None, 5), ErrorCode.UNKNOWN_MEMBER_ID),
        (Heartbeat("g", "a", None, 4), ErrorCode.ILLEGAL_GENERATION),
        (Heartbeat("g", "a", None, 6), ErrorCode.ILLEGAL_GENERATION),
        (Heartbeat("g", "a", "unknown", 5), ErrorCode.UNKNOWN_MEMBER_ID),
        (Heartbeat("g", "a", "i", 5), ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_invalid_heartbeat_is_refused_and_arms_no_timer(heartbeat: Heartbeat, error: ErrorCode) -> None:
    given(STORED).when(heartbeat).then(Reply(HeartbeatResult(error)))


def test_heartbeat_of_an_instance_with_its_member_id_is_good() -> None:
    effects = given(STORED).when(Heartbeat("g", "b", "i", 5)).effects
    assert Reply(HeartbeatResult(ErrorCode.NONE, is_quiet=True)) in effects


def test_heartbeat_to_an_empty_group_is_refused() -> None:
    world = World()
    (member,) = world.stable(1)
    world.advance(SESSION_MS)
    assert world.group().phase is Phase.EMPTY
    assert world.heartbeat(member) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeat_to_a_dead_group_finds_no_coordinator() -> None:
    world = World()
    (member,) = world.stable(1)
    world.group().phase = Phase.DEAD
    assert world.heartbeat(member) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_heartbeat_while_members_gather_is_rebalance_in_progress_and_renews_the_session() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    for _ in range(4):
        world.advance(SESSION_MS - 1)
        assert world.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    assert follower in world.group().members


def test_heartbeat_while_the_leader_computes_is_good() -> None:
    world = World()
    leader, follower = completing(world)
    assert world.heartbeat(leader) is world.heartbeat(follower) is ErrorCode.NONE


def test_silent_member_is_evicted_and_a_round_starts() -> None:
    world = World()
    leader, silent = world.stable(2)
    world.advance(SESSION_MS - 1)
    world.heartbeat(leader)
    world.advance(1)
    assert world.group().phase is Phase.PREPARING_REBALANCE
    (removed,) = [event for event in world.events if isinstance(event, MemberRemoved)]
    assert removed.cause == Cause(CauseKind.SESSION_TIMEOUT, world.now_ms, silent, "no heartbeat for 10.0 s")
    assert joined(world.join(leader)).generation == 2


def test_member_that_falls_silent_while_others_gather_does_not_hold_them_up() -> None:
    world = World()
    leader, _silent = world.stable(2)
    forced = world.join(leader)
    world.advance(SESSION_MS)
    assert joined(forced).generation == 2


def test_who_waits_for_a_generation_is_alive() -> None:
    world = World()
    leader, follower = world.stable(2)
    forced = world.join(leader)
    for _ in range(5):
        world.advance(SESSION_MS - 1)
        world.heartbeat(follower)
    assert forced.is_waiting
    assert leader in world.group().members


def test_who_waits_for_its_assignment_is_alive() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    for _ in range(5):
        world.advance(SESSION_MS - 1)
        world.heartbeat(leader)
    assert waiting.is_waiting
    world.sync(leader, assignments=((follower, b"x"),))
    assert synced(waiting).assignment == b"x"
    world.advance(SESSION_MS - 1)
    assert follower in world.group().members


# -- sync


@pytest.mark.parametrize(
    ("sync", "error"),
    [
        (Sync("", "a", None, 5), ErrorCode.INVALID_GROUP_ID),
        (Sync("other", "a", None, 5), ErrorCode.UNKNOWN_MEMBER_ID),
        (Sync("g", "x", None, 5), ErrorCode.UNKNOWN_MEMBER_ID),
        (Sync("g", "a", None, 4), ErrorCode.ILLEGAL_GENERATION),
        (Sync("g", "a", "i", 5), ErrorCode.FENCED_INSTANCE_ID),
        (Sync("g", "a", None, 5, "connect", "range"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (Sync("g", "a", None, 5, "consumer", "sticky"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_sync_that_does_not_fit_the_group_is_refused(sync: Sync, error: ErrorCode) -> None:
    given(STORED).when(sync).then(Reply(SyncResult(error)))


@pytest.mark.parametrize("protocol", [(None, None), ("consumer", "range"), ("consumer", None)])
def test_sync_in_a_stable_group_returns_the_stored_assignment(protocol: tuple[str | None, str | None]) -> None:
    given(STORED).when(Sync("g", "b", "i", 5, *protocol)).then(
        Reply(SyncResult(ErrorCode.NONE, "consumer", "range", b"for b"))
    )


def test_follower_waits_for_the_leader() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    assert waiting.is_waiting
    own = world.sync(leader, assignments=((leader, b"1"), (follower, b"2")))
    assert (synced(own).assignment, synced(waiting).assignment) == (b"1", b"2")
    assert world.group().phase is Phase.STABLE


def test_follower_that_comes_after_the_leader_is_answered_at_once() -> None:
    world = World()
    leader, follower = completing(world)
    world.sync(leader, assignments=((leader, b"1"), (follower, b"2")))
    assert synced(world.sync(follower)).assignment == b"2"


def test_synced_generation_is_stored_with_its_members_and_who_handed_it_in() -> None:
    world = World()
    leader, follower = completing(world)
    world.sync(leader, assignments=((leader, b"1"), (follower, b"2"), ("stranger", b"3")))
    (stored,) = world.log[-1]
    assert isinstance(stored, GroupStored)
    assert {member.member_id: member.assignment for member in stored.members} == {leader: b"1", follower: b"2"}
    assert (stored.generation, stored.protocol_name, stored.leader) == (1, "range", leader)
    assert stored.cause == Cause(CauseKind.LEADER_SYNCED, world.now_ms, leader)


def test_member_that_the_leader_forgot_gets_nothing() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    world.sync(leader)
    assert synced(waiting).assignment == b""


def test_sync_while_members_gather_sends_the_member_to_join() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    assert world.sync(follower).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_sync_in_a_first_round_sends_the_member_to_join_whatever_protocol_it_names() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    member_id, _ = world.enter()
    assert world.sync(member_id, 0, protocol_name="sticky").error is ErrorCode.REBALANCE_IN_PROGRESS


def test_second_sync_of_a_waiting_member_sends_the_first_away() -> None:
    world = World()
    leader, follower = completing(world)
    first, second = world.sync(follower), world.sync(follower)
    world.sync(leader)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.error is ErrorCode.NONE


def test_assignments_that_cannot_be_stored_fail_every_sync_and_start_a_round() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    world.append_error = ErrorCode.MESSAGE_TOO_LARGE
    assert world.sync(leader).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert waiting.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.group().phase is Phase.PREPARING_REBALANCE
    cause = world.group().round_cause
    assert cause is not None
    assert cause.kind is CauseKind.APPEND_FAILED


def test_leader_that_fails_while_computing_is_succeeded() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    world.advance(SESSION_MS)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(world.join(follower)).leader == follower
    assert leader not in world.group().members


def test_members_that_never_sync_are_evicted_after_the_rebalance_timeout() -> None:
    world = World()
    leader, follower = completing(world)
    waiting = world.sync(follower)
    for _ in range(REBALANCE_MS // 5_000):
        world.heartbeat(leader)
        world.advance(5_000)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert set(world.group().members) == {follower}


def test_follower_that_never_syncs_is_evicted_although_the_group_is_stable() -> None:
    world = World()
    leader, follower = completing(world)
    world.sync(leader)
    assert world.group().phase is Phase.STABLE
    for _ in range(REBALANCE_MS // 5_000):
        world.heartbeat(leader)
        world.heartbeat(follower)
        world.advance(5_000)
    assert set(world.group().members) == {leader}
    assert world.group().phase is Phase.PREPARING_REBALANCE


def test_sync_timer_is_cancelled_once_every_member_has_synced() -> None:
    world = World()
    leader, _ = completing(world)
    world.settle(world.group().members)
    assert sync_timer("g", 1) not in world.timers
    assert world.group().leader == leader
