"""Static members in rounds: twins of one instance, changed protocols, and who leads when a leader stays away."""

from __future__ import annotations

import pytest
from tests.unit.group.classic.test_static import TWO, back, pair
from tests.unit.group.world import REBALANCE_MS, SESSION_MS, Answer, World, joined, synced

from kohort.group.classic.group import Phase
from kohort.model.errors import ErrorCode

FENCED = ErrorCode.FENCED_INSTANCE_ID
STICKY = TWO[1:]


def again(world: World, member_id: str, instance_id: str, **changes: object) -> Answer:
    """Join as an instance that knows its member id."""
    return world.join(member_id, instance_id=instance_id, **changes)


def test_second_process_of_an_instance_replaces_the_follower_in_the_round_and_fences_it() -> None:
    world = World()
    leader, follower = pair(world)
    forced = again(world, leader, "leads")
    twin = back(world, "follows")
    assert joined(twin).generation == joined(forced).generation == 2
    assert again(world, follower, "follows").result.error is FENCED
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    assert {entry.member_id for entry in joined(forced).members} == {leader, joined(twin).member_id}


def test_second_process_of_a_syncing_instance_leads_where_the_leader_does_not_rejoin() -> None:
    world = World()
    leader, follower = pair(world)
    again(world, leader, "leads")
    again(world, follower, "follows")
    syncing = world.sync(follower, instance_id="follows")
    twin = back(world, "follows")
    assert syncing.error is FENCED
    world.advance(SESSION_MS)
    assert (joined(twin).generation, joined(twin).leader) == (3, joined(twin).member_id)
    assert set(world.group().members) == {joined(twin).member_id}, "the leader's session is over"


def test_lone_static_member_that_restarts_while_it_computes_gets_the_next_generation_at_once() -> None:
    world = World()
    first = world.join(instance_id="i")
    world.gather()
    second = back(world, "i")
    assert (joined(first).generation, joined(second).generation) == (1, 2)
    assert list(world.group().members) == [joined(second).member_id]
    assert world.group().phase is Phase.COMPLETING_REBALANCE


def test_static_leader_that_joins_again_while_it_computes_is_answered_at_once_and_may_sync() -> None:
    world = World()
    first = world.join(instance_id="i")
    world.gather()
    member_id = joined(first).member_id
    assert joined(again(world, member_id, "i")).generation == 1
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    synced(world.sync(member_id, instance_id="i", assignments=((member_id, b"x"),)))
    assert world.group().phase is Phase.STABLE


@pytest.mark.parametrize("can_skip", [True, False])
def test_old_id_of_a_returned_leader_is_fenced_with_its_instance_and_unknown_without(can_skip: bool) -> None:
    world = World()
    leader, _ = pair(world)
    joined(back(world, "leads", can_skip_assignment=can_skip))
    assert again(world, leader, "leads").error is FENCED
    assert world.sync(leader, instance_id="leads").error is FENCED
    assert world.sync(leader).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("knows_its_id", [True, False])
def test_follower_that_drops_the_chosen_protocol_leads_the_round_its_leader_misses(knows_its_id: bool) -> None:
    world = World()
    leader, follower = pair(world, protocols=TWO, session_timeout_ms=2 * REBALANCE_MS)
    asked = world.join(follower if knows_its_id else "", instance_id="follows", protocols=STICKY)
    assert asked.is_waiting
    world.advance(REBALANCE_MS)
    result = joined(asked)
    assert (result.leader, result.protocol_name, result.generation) == (result.member_id, "sticky", 2)
    assert (result.member_id == follower) is knows_its_id
    assert {entry.instance_id for entry in result.members} == {"leads", "follows"}
    assert leader in world.group().members


def test_instance_id_of_another_member_is_fenced_in_every_request() -> None:
    world = World()
    leader, follower = pair(world)
    assert again(world, follower, "leads").error is FENCED
    assert again(world, leader, "follows").error is FENCED
    assert world.sync("stranger", instance_id="follows").error is FENCED
    assert world.heartbeat("stranger", instance_id="leads") is FENCED
    assert world.heartbeat(leader) is ErrorCode.NONE, "without its instance id it is believed"


def test_leader_is_given_a_new_id_at_each_return_and_stays_the_leader() -> None:
    world = World()
    leader, _ = pair(world)
    seen = {leader}
    for _ in range(5):
        result = joined(back(world, "leads"))
        assert world.group().static_members["leads"] == world.group().leader == result.member_id
        seen.add(result.member_id)
    assert len(seen) == 6
    assert world.group().generation == 1


def test_old_id_is_good_again_after_its_successor_could_not_be_stored() -> None:
    world = World()
    leader, follower = pair(world, protocols=TWO)
    world.append_error = ErrorCode.MESSAGE_TOO_LARGE
    assert back(world, "follows", protocols=TWO[:1]).error is ErrorCode.UNKNOWN_SERVER_ERROR
    world.append_error = None
    rejoined = [again(world, follower, "follows", protocols=TWO[:1]), again(world, leader, "leads", protocols=TWO)]
    assert [joined(answer).generation for answer in rejoined] == [2, 2]
    synced(world.sync(leader, instance_id="leads", assignments=((follower, b"x"),)))
    assert synced(world.sync(follower, instance_id="follows")).assignment == b"x"


def test_instance_that_repeats_its_first_join_is_not_evicted_while_that_waits() -> None:
    world = World()
    (member,) = world.stable(1)
    first = world.join(instance_id="i", session_timeout_ms=6_000)
    again = world.join(instance_id="i", session_timeout_ms=6_000)
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    for _ in range(3):
        world.advance(5_000)
        assert world.heartbeat(member) is ErrorCode.REBALANCE_IN_PROGRESS
    assert again.is_waiting
    world.join(member)
    assert joined(again).generation == 2
