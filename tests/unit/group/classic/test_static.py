"""Static members (KIP-345): their place is kept while they are away, and only one holder of an instance is believed."""

from __future__ import annotations

import pytest
from tests.unit.group.world import REBALANCE_MS, SESSION_MS, Answer, World, joined, synced

from kohort.group.classic.group import Phase
from kohort.group.commands import Leaving
from kohort.group.events import GroupStored, MemberRemoved, StaticMemberReplaced
from kohort.group.results import JoinedMember
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode

TWO = (("range", b"topics"), ("sticky", b"topics"))


def pair(world: World, **changes: object) -> tuple[str, str]:
    """Bring instances `leads` and `follows` into a Stable group; return their member ids."""
    leads = world.join(instance_id="leads", **changes)
    follows = world.join(instance_id="follows", **changes)
    world.gather()
    ids = joined(leads).member_id, joined(follows).member_id
    world.settle(ids)
    assert world.group().leader == ids[0]
    return ids


def back(world: World, instance_id: str, **changes: object) -> Answer:
    """Join as an instance that has forgotten its member id."""
    return world.join(instance_id=instance_id, **changes)


def test_static_member_is_not_sent_back_for_an_id() -> None:
    world = World()
    join = world.join(instance_id="i")
    world.gather()
    assert joined(join).members == (JoinedMember(join.result.member_id, "i", b"topics"),)


def test_known_instance_with_a_foreign_member_id_is_fenced() -> None:
    world = World()
    _, follower = pair(world)
    assert world.join("stranger", instance_id="leads").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.join(follower, instance_id="leads").error is ErrorCode.FENCED_INSTANCE_ID


def test_unknown_instance_with_a_member_id_is_unknown() -> None:
    world = World()
    leader, _ = pair(world)
    assert world.join(leader, instance_id="missing").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_each_return_gives_the_instance_another_member_id() -> None:
    world = World()
    _, follower = pair(world)
    ids = [joined(back(world, "follows")).member_id for _ in range(3)]
    assert len({follower, *ids}) == 4
    assert world.group().static_members["follows"] == ids[-1]


def test_returning_follower_keeps_generation_and_assignment() -> None:
    world = World()
    leader, follower = pair(world)
    answer = joined(back(world, "follows"))
    assert (answer.generation, answer.leader, answer.members, answer.skip_assignment) == (1, leader, (), False)
    assert world.group().phase is Phase.STABLE
    assert synced(world.sync(answer.member_id)).assignment == f"for {follower}".encode()


def test_new_id_of_a_static_member_is_stored() -> None:
    world = World()
    pair(world)
    new = joined(back(world, "follows")).member_id
    (stored,) = world.log[-1]
    assert isinstance(stored, GroupStored)
    assert [member.member_id for member in stored.members if member.instance_id == "follows"] == [new]
    assert stored.generation == 1


def test_returning_leader_learns_the_members_and_that_it_need_not_assign() -> None:
    world = World()
    _, follower = pair(world)
    answer = joined(back(world, "leads"))
    assert answer.skip_assignment
    assert answer.leader == answer.member_id == world.group().leader
    assert {entry.member_id for entry in answer.members} == {answer.member_id, follower}


def test_returning_leader_without_skip_assignment_gets_its_old_id_as_leader() -> None:
    world = World()
    leader, _ = pair(world)
    answer = joined(back(world, "leads", can_skip_assignment=False))
    assert (answer.leader, answer.members, answer.skip_assignment) == (leader, (), False)
    assert world.group().leader == answer.member_id


def test_old_id_is_fenced_everywhere_after_its_instance_came_back() -> None:
    world = World()
    _, follower = pair(world)
    back(world, "follows")
    assert world.heartbeat(follower, instance_id="follows") is ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(follower, instance_id="follows").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.join(follower, instance_id="follows").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.commit(follower, 1, instance_id="follows").error is ErrorCode.FENCED_INSTANCE_ID
    (left,) = world.leave(Leaving(follower, "follows")).result.members
    assert left.error is ErrorCode.FENCED_INSTANCE_ID


def test_join_that_waits_is_fenced_when_its_instance_comes_back() -> None:
    world = World()
    leader, follower = pair(world)
    waiting = world.join(leader, instance_id="leads")
    again = back(world, "leads")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    world.join(follower, instance_id="follows")
    assert joined(again).generation == 2


def test_sync_that_waits_is_fenced_when_its_instance_comes_back() -> None:
    world = World()
    leader, follower = pair(world)
    world.join(leader, instance_id="leads")
    world.join(follower, instance_id="follows")
    waiting = world.sync(follower, instance_id="follows")
    assert back(world, "follows").is_waiting
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID


def test_instance_that_comes_back_while_the_leader_computes_restarts_the_round() -> None:
    world = World()
    leader, follower = pair(world)
    world.join(leader, instance_id="leads")
    world.join(follower, instance_id="follows")
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    again = back(world, "follows")
    assert world.group().phase is Phase.PREPARING_REBALANCE
    world.join(leader, instance_id="leads")
    assert joined(again).generation == 3


def test_instance_that_comes_back_while_members_gather_takes_its_place() -> None:
    world = World()
    leader, _ = pair(world)
    forced = world.join(leader, instance_id="leads")
    again = back(world, "follows")
    assert joined(again).generation == joined(forced).generation == 2


def test_leader_that_rejoins_with_its_id_forces_a_round() -> None:
    world = World()
    leader, _ = pair(world)
    assert world.join(leader, instance_id="leads").is_waiting


def test_follower_that_rejoins_with_its_id_gets_the_current_generation() -> None:
    world = World()
    _, follower = pair(world)
    assert joined(world.join(follower, instance_id="follows")).generation == 1


def test_protocols_that_keep_the_choice_need_no_round() -> None:
    world = World()
    pair(world, protocols=TWO)
    assert joined(back(world, "follows", protocols=TWO[:1])).generation == 1


def test_protocols_that_change_the_choice_start_a_round() -> None:
    world = World()
    pair(world, protocols=TWO)
    assert back(world, "follows", protocols=TWO[1:]).is_waiting
    cause = world.group().round_cause
    assert cause is not None
    assert cause.kind is CauseKind.PROTOCOL_CHANGED


def test_other_topics_start_a_round() -> None:
    """KAFKA-12759: Kafka keeps the generation, and no member reads the new topics."""
    world = World()
    pair(world)
    assert back(world, "follows", protocols=(("range", b"topics,more"),)).is_waiting
    cause = world.group().round_cause
    assert cause is not None
    assert cause.kind is CauseKind.SUBSCRIPTION_CHANGED


@pytest.mark.parametrize("metadata", [b"topics", b"!unreadable"])
def test_same_or_unreadable_topics_start_none(metadata: bytes) -> None:
    world = World()
    pair(world)
    assert joined(back(world, "follows", protocols=(("range", metadata),))).generation == 1


def test_new_id_that_cannot_be_stored_is_taken_back() -> None:
    world = World()
    _, follower = pair(world)
    world.append_error = ErrorCode.MESSAGE_TOO_LARGE
    assert back(world, "follows").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.group().static_members["follows"] == follower
    assert world.heartbeat(follower, instance_id="follows") is ErrorCode.NONE


def test_static_member_outlives_a_round_it_misses() -> None:
    world = World()
    leader, follower = pair(world, session_timeout_ms=REBALANCE_MS * 3)
    forced = world.join(leader, instance_id="leads")
    world.advance(REBALANCE_MS)
    assert {entry.member_id for entry in joined(forced).members} == {leader, follower}


def test_static_member_that_never_syncs_is_evicted() -> None:
    world = World()
    leader, follower = pair(world, session_timeout_ms=REBALANCE_MS * 9)
    world.join(leader, instance_id="leads", session_timeout_ms=REBALANCE_MS * 9)
    world.advance(REBALANCE_MS)
    world.sync(leader, assignments=((leader, b""),))
    world.advance(REBALANCE_MS)
    assert set(world.group().members) == {leader}
    kinds = [event.cause.kind for event in world.events if isinstance(event, MemberRemoved)]
    assert kinds == [CauseKind.SYNC_TIMEOUT]
    assert follower not in world.group().static_members.values()


def test_leader_that_misses_a_round_is_succeeded_and_stays_a_member() -> None:
    world = World()
    leader, follower = pair(world, session_timeout_ms=REBALANCE_MS * 3)
    forced = world.join(follower, instance_id="follows", protocols=TWO)
    world.advance(REBALANCE_MS)
    assert joined(forced).leader == follower
    assert leader in world.group().members


def test_silent_static_member_is_evicted_by_its_session() -> None:
    world = World()
    leader, follower = pair(world)
    world.advance(SESSION_MS - 1)
    world.heartbeat(leader, instance_id="leads")
    world.advance(1)
    assert set(world.group().members) == {leader}
    assert follower not in world.timers


def test_instances_new_session_replaces_the_old_one() -> None:
    world = World()
    leader, _ = pair(world)
    world.advance(SESSION_MS - 1)
    world.heartbeat(leader, instance_id="leads")
    new = joined(back(world, "follows", session_timeout_ms=20_000)).member_id
    world.advance(SESSION_MS - 1)
    assert new in world.group().members


def test_group_size_does_not_count_an_instance_twice() -> None:
    world = World(max_size=2)
    leader, _ = pair(world)
    forced = world.join(leader, instance_id="leads")
    assert joined(back(world, "follows")).generation == joined(forced).generation


def test_replacement_event_has_the_old_and_the_new_member_id() -> None:
    world = World()
    _, follower = pair(world)
    new = joined(back(world, "follows", reason="restart")).member_id
    (replaced,) = [event for event in world.events if isinstance(event, StaticMemberReplaced)]
    assert (replaced.old_member_id, replaced.member_id, replaced.cause.detail) == (follower, new, "restart")
