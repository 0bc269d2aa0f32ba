"""Rounds from their beginning to their end: who joins late, who never comes, and what is left of them."""

from __future__ import annotations

import pytest
from tests.unit.group.world import REBALANCE_MS, SESSION_MS, World, joined, synced

from kohort.group.classic.group import Phase
from kohort.group.commands import Leaving, TimerFired, Unload
from kohort.group.coordinator_settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from kohort.group.events import GroupStored, MemberRemoved
from kohort.group.group_timers import join_timer
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode

LONG_MS = 600_000
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


# -- joins that are refused


def test_named_instance_with_an_id_in_a_group_that_does_not_exist_is_refused() -> None:
    world = World()
    assert world.join("stranger", instance_id="i").error is UNKNOWN
    assert not world.shard.groups


@pytest.mark.parametrize("changes", [{"protocol_type": ""}, {"protocols": ()}])
def test_first_static_member_must_send_its_protocols_too(changes: dict[str, object]) -> None:
    assert World().join(instance_id="i", **changes).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_member_without_a_shared_protocol_does_not_disturb_the_round_it_wanted_to_join() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    _, first = world.enter()
    assert world.join(protocols=(("roundrobin", b""),)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    world.advance(3_000)
    assert len(joined(first).members) == 1


def test_issued_id_survives_a_join_that_was_refused_for_its_protocols() -> None:
    world = World()
    member_id = world.join().result.member_id
    assert world.join(member_id, protocols=()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    accepted = world.join(member_id)
    world.gather()
    assert joined(accepted).member_id == member_id


# -- new members


def test_new_member_outlives_five_minutes_once_it_has_its_generation() -> None:
    world = World()
    session_ms = NEW_MEMBER_JOIN_TIMEOUT_MS + 5_000
    (member,) = world.stable(1, session_timeout_ms=session_ms)
    world.advance(session_ms - 1)
    assert member in world.group().members
    world.advance(1)
    assert world.group().phase is Phase.EMPTY
    (stored,) = [event for event in world.log[-1] if isinstance(event, GroupStored)]
    assert (stored.generation, stored.members, stored.protocol_type) == (2, (), "consumer")


def test_new_member_that_fails_before_it_syncs_is_evicted_by_its_session() -> None:
    world = World()
    (leader,) = world.stable(1)
    newcomer, join = world.enter()
    again = world.join(leader)
    assert joined(join).generation == joined(again).generation == 2
    world.advance(SESSION_MS)
    assert world.group().phase is Phase.EMPTY
    removed = [event for event in world.events if isinstance(event, MemberRemoved)]
    assert {(event.member_id, event.cause.kind) for event in removed} == {
        (leader, CauseKind.SESSION_TIMEOUT),
        (newcomer, CauseKind.SESSION_TIMEOUT),
    }


def test_member_that_waits_alone_for_a_first_round_longer_than_five_minutes_is_dropped() -> None:
    world = World(initial_rebalance_delay_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    _, join = world.enter(rebalance_timeout_ms=4 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    world.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert join.error is UNKNOWN
    world.gather()
    assert world.group().phase is Phase.EMPTY


def test_unused_id_issued_by_a_stable_group_costs_no_round() -> None:
    world = World()
    join = world.join(instance_id="i")
    world.gather()
    (member,) = world.settle([joined(join).member_id])
    world.join()
    for _ in range(2):
        world.advance(SESSION_MS // 2)
        assert world.heartbeat(member) is ErrorCode.NONE
    assert world.group().pending == set()
    assert (world.group().phase, world.group().generation) == (Phase.STABLE, 1)


# -- rounds that end without some


def test_round_that_loses_its_group_does_nothing_when_its_time_is_over() -> None:
    world = World(initial_rebalance_delay_ms=3_000)
    world.enter()
    world.submit(Unload("g"))
    assert not world.timers
    world.submit(TimerFired(join_timer("g")))
    assert (world.group().phase, world.group().generation) == (Phase.DEAD, 0)


def test_leader_that_does_not_rejoin_a_newcomers_round_is_removed_and_the_newcomer_leads() -> None:
    world = World()
    (leader,) = world.stable(1, session_timeout_ms=LONG_MS)
    newcomer, join = world.enter(session_timeout_ms=LONG_MS)
    world.advance(REBALANCE_MS)
    assert (joined(join).leader, joined(join).generation) == (newcomer, 2)
    assert set(world.group().members) == {newcomer}
    assert world.heartbeat(leader) is UNKNOWN


def test_static_member_that_misses_the_round_is_fenced_by_its_generation_and_evicted_by_its_session() -> None:
    world = World()
    alone = world.join(instance_id="i", session_timeout_ms=40_000, rebalance_timeout_ms=30_000)
    world.gather()
    (absent,) = world.settle([joined(alone).member_id])
    dynamic, join = world.enter(session_timeout_ms=20_000, rebalance_timeout_ms=30_000)
    world.advance(15_000)
    assert world.heartbeat(absent, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    world.advance(15_000)
    assert (joined(join).leader, joined(join).generation, len(joined(join).members)) == (dynamic, 2, 2)
    assert synced(world.sync(dynamic)).assignment == b""
    assert world.group().phase is Phase.STABLE
    assert world.heartbeat(absent, 1) is ErrorCode.ILLEGAL_GENERATION
    while absent in world.group().members:
        assert world.heartbeat(dynamic) is ErrorCode.NONE
        world.advance(5_000)
    assert world.heartbeat(dynamic) is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(world.join(dynamic)).generation == 3
    world.settle([dynamic])
    for _ in range(20):
        world.advance(5_000)
        assert world.heartbeat(dynamic) is ErrorCode.NONE
    assert world.group().generation == 3


def test_round_without_rejoins_is_extended_until_static_members_rejoin() -> None:
    world = World()
    timeouts = {"session_timeout_ms": LONG_MS, "rebalance_timeout_ms": 10_000}
    joins = [world.join(instance_id=instance, **timeouts) for instance in ("i", "j")]
    world.gather()
    one, two = world.settle(joined(join).member_id for join in joins)
    dynamic, _ = world.enter(**timeouts)
    world.leave(Leaving(dynamic))
    world.advance(10_000)
    for _ in range(2):
        assert world.timers[join_timer("g")] - world.now_ms == 10_000
        world.advance(10_000)
    assert (world.group().phase, world.group().generation) == (Phase.PREPARING_REBALANCE, 1)
    instances = {member.member_id: instance for instance, member in zip("ij", [joined(j) for j in joins], strict=True)}
    back = [world.join(each, instance_id=instances[each], **timeouts) for each in (one, two)]
    assert [joined(answer).generation for answer in back] == [2, 2]
    assert set(world.group().members) == {one, two}


def test_round_with_only_an_absent_static_member_left_ends_with_its_session() -> None:
    world = World()
    timeouts = {"session_timeout_ms": 20_000, "rebalance_timeout_ms": 5_000}
    joins = [world.join(instance_id=instance, **timeouts) for instance in ("leads", "follows")]
    world.gather()
    leads, follows = world.settle(joined(join).member_id for join in joins)
    dynamic, join = world.enter(**timeouts)
    world.advance(5_000)
    assert (joined(join).leader, joined(join).generation, len(joined(join).members)) == (dynamic, 2, 3)
    world.leave(Leaving(follows, "follows"))
    world.advance(5_000)
    assert set(world.group().members) == {leads}, "the dynamic member did not rejoin either"
    assert (world.group().phase, world.group().generation) == (Phase.PREPARING_REBALANCE, 2)
    world.advance(20_000)
    assert (world.group().phase, world.group().generation) == (Phase.EMPTY, 3)
    assert not world.timers


def test_group_in_which_no_member_syncs_becomes_empty() -> None:
    world = World()
    ids = world.completing(3, rebalance_timeout_ms=8_000)
    world.advance(4_000)
    assert {world.heartbeat(member_id) for member_id in ids} == {ErrorCode.NONE}
    world.advance(4_000)
    assert {world.heartbeat(member_id) for member_id in ids} == {UNKNOWN}
    assert (world.group().phase, world.group().generation) == (Phase.EMPTY, 2)


def test_members_that_all_synced_stay_beyond_the_rebalance_timeout() -> None:
    world = World()
    ids = world.stable(3, rebalance_timeout_ms=8_000)
    for _ in range(4):
        world.advance(4_000)
        assert {world.heartbeat(member_id) for member_id in ids} == {ErrorCode.NONE}
    assert world.group().phase is Phase.STABLE


def test_members_and_an_issued_id_that_leave_together_empty_the_gathering_group() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    pending = world.join().result.member_id
    answer = world.leave(*map(Leaving, (leader, follower, pending, "stranger")))
    assert [entry.error for entry in answer.result.members] == [ErrorCode.NONE] * 3 + [UNKNOWN]
    assert (world.group().phase, world.group().pending) == (Phase.EMPTY, set())
    assert not world.timers


def test_eviction_without_a_sync_names_the_leader_as_such() -> None:
    world = World()
    leader, follower = world.completing(2, session_timeout_ms=2 * REBALANCE_MS)
    world.advance(REBALANCE_MS)
    details = {event.member_id: event.cause.detail for event in world.events if isinstance(event, MemberRemoved)}
    assert details[leader] == "no SyncGroup in generation 1, which it led, within 60000 ms"
    assert details[follower] == "no SyncGroup in generation 1 within 60000 ms"
