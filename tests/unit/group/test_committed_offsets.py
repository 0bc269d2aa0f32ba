"""Committed offsets: who may commit, what is kept, deleted and forgotten."""

from __future__ import annotations

import pytest
from tests.unit.group.world import NOW, REBALANCE_MS, SESSION_MS, World, fold, given

from kohort.group.classic.group import Phase
from kohort.group.commands import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ForgetTopic,
    GrowTopic,
    Leaving,
    OffsetToCommit,
)
from kohort.group.committed_offsets import fetch_offset
from kohort.group.decisions import decide
from kohort.group.effects import Append, Reply
from kohort.group.events import GroupDeleted, OffsetCommitted, OffsetDeleted
from kohort.group.results import CommitResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID

ID, OTHER_ID = b"1" * 16, b"2" * 16
RETENTION_MS = 7 * 24 * 3_600_000


def committed(world: World, topic: str = "t", topic_id: bytes = NO_TOPIC_ID) -> int | None:
    found = fetch_offset(world.shard, "g", topic, 0, topic_id)
    return None if found is None else found.offset


# -- who may commit


def test_commit_from_outside_makes_a_simple_group() -> None:
    offset = OffsetToCommit("t", 0, 7, 3, "note", ID)
    given().when(CommitOffsets("g", "", None, -1, [offset])).then(
        Append(OffsetCommitted("g", "t", 0, 7, 3, "note", NOW, -1, ID, "")),
        Reply(CommitResult(ErrorCode.NONE)),
    )
    world = World()
    world.commit()
    assert world.group().is_simple
    assert world.group().phase is Phase.EMPTY


def test_group_without_a_name_may_commit_from_outside() -> None:
    world = World()
    assert world.commit(group_id="").error is ErrorCode.NONE


def test_generation_of_a_group_that_does_not_exist_is_refused() -> None:
    assert World().commit("m", 3).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_member_commits_in_its_generation() -> None:
    world = World()
    leader, _ = world.stable(2)
    assert world.commit(leader, 1).error is ErrorCode.NONE
    assert committed(world) == 7
    assert world.shard.offsets["g"]["t", 0].cause == Cause(CauseKind.OFFSETS_COMMITTED, world.now_ms, leader)


@pytest.mark.parametrize(
    ("member_id", "generation", "error"),
    [
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("stranger", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m1", 0, ErrorCode.ILLEGAL_GENERATION),
        ("m1", 2, ErrorCode.ILLEGAL_GENERATION),
        ("m1", -1, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_group_with_members_takes_no_commit_from_others(member_id: str, generation: int, error: ErrorCode) -> None:
    world = World()
    world.stable(1)
    assert world.commit(member_id, generation).error is error
    assert committed(world) is None


def test_instance_decides_who_may_commit() -> None:
    world = World()
    join = world.join(instance_id="i")
    world.gather()
    (member,) = world.settle([join.result.member_id])
    assert world.commit(member, 1, instance_id="i").error is ErrorCode.NONE
    assert world.commit(member, 1, instance_id="missing").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit("other", 1, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.commit("", -1, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID


def test_instance_id_of_a_simple_group_is_ignored() -> None:
    world = World()
    assert world.commit(instance_id="i").error is ErrorCode.NONE
    assert world.commit(instance_id="i").error is ErrorCode.NONE
    assert world.group().is_simple


def test_member_may_commit_while_others_gather() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(leader)
    assert world.commit(follower, 1).error is ErrorCode.NONE


def test_member_may_not_commit_before_it_has_its_assignment() -> None:
    world = World()
    member, _ = world.enter()
    world.gather()
    assert world.commit(member, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_evicted_member_may_not_commit() -> None:
    world = World()
    leader, evicted = world.stable(2)
    world.advance(SESSION_MS - 1)
    world.heartbeat(leader)
    world.advance(1)
    assert world.commit(evicted, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_administrator_may_commit_for_an_empty_group() -> None:
    world = World()
    (member,) = world.stable(1)
    world.leave(Leaving(member))
    assert world.commit().error is ErrorCode.NONE


def test_group_that_moved_away_takes_no_commit() -> None:
    world = World()
    (member,) = world.stable(1)
    world.group().phase = Phase.DEAD
    assert world.commit(member, 1).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_commit_is_a_sign_of_life() -> None:
    world = World()
    (member,) = world.stable(1)
    for _ in range(3):
        world.advance(SESSION_MS - 1)
        world.commit(member, 1)
    assert member in world.group().members


def test_refused_commit_is_none() -> None:
    world = World()
    (member,) = world.stable(1)
    world.advance(SESSION_MS - 1)
    world.commit(member, 9)
    world.advance(1)
    assert world.group().phase is Phase.EMPTY


def test_too_long_metadata_keeps_only_its_own_partition_out() -> None:
    world = World(offset_metadata_max_bytes=4)
    offsets = [OffsetToCommit("t", 0, 1, -1, "12345", ID), OffsetToCommit("t", 1, 2, -1, "1234", ID)]
    assert world.commit(offsets=offsets).result == CommitResult(ErrorCode.NONE, (("t", 0),))
    assert set(world.shard.offsets["g"]) == {("t", 1)}


def test_commit_that_cannot_be_stored_did_not_happen() -> None:
    world = World()
    world.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.commit().error is ErrorCode.NOT_COORDINATOR
    assert committed(world) is None
    assert not world.shard.groups


def test_network_error_of_the_log_reads_as_loading() -> None:
    world = World()
    world.append_error = ErrorCode.NETWORK_EXCEPTION
    assert world.commit().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# -- fetching


def test_offset_of_a_deleted_topic_does_not_count_for_its_successor() -> None:
    world = World()
    world.commit(offsets=[OffsetToCommit("t", 0, 7, -1, "", ID)])
    assert committed(world, topic_id=ID) == committed(world) == 7
    assert committed(world, topic_id=OTHER_ID) is None


def test_offset_committed_without_an_id_counts_for_any() -> None:
    world = World()
    world.commit()
    assert committed(world, topic_id=ID) == 7


# -- deleting


def test_offsets_of_a_subscribed_topic_stay() -> None:
    world = World()
    leader, _ = world.stable(2)
    world.commit(leader, 1, offsets=[OffsetToCommit(topic, 0, 1, -1, "", ID) for topic in ("topics", "old")])
    result = world.submit(DeleteOffsets("g", (("topics", 0), ("old", 0), ("old", 1)))).result
    assert (result.error, result.subscribed) == (ErrorCode.NONE, {"topics"})
    assert committed(world, "topics") == 1
    assert committed(world, "old") is None


def test_members_that_cannot_be_read_may_read_any_topic() -> None:
    world = World()
    (member,) = world.stable(1, protocols=(("range", b"!"),))
    world.commit(member, 1)
    assert world.submit(DeleteOffsets("g", (("t", 0),))).result.subscribed == {"t"}


def test_offsets_of_a_running_group_of_another_kind_stay() -> None:
    world = World()
    world.stable(1, protocol_type="connect")
    assert world.submit(DeleteOffsets("g", (("t", 0),))).error is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_a_missing_group_cannot_be_deleted() -> None:
    assert World().submit(DeleteOffsets("g", (("t", 0),))).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_simple_group_ends_with_its_last_offset() -> None:
    world = World()
    world.commit()
    world.submit(DeleteOffsets("g", (("t", 0),)))
    assert not world.shard.groups


def test_empty_group_is_deleted_with_its_offsets() -> None:
    world = World()
    (member,) = world.stable(1)
    world.commit(member, 1)
    world.leave(Leaving(member))
    assert world.submit(DeleteGroup("g")).error is ErrorCode.NONE
    cause = Cause(CauseKind.ADMIN_REQUEST, world.now_ms)
    assert world.log[-1] == [OffsetDeleted("g", "t", 0, cause), GroupDeleted("g", cause)]
    assert not world.shard.groups
    assert not world.shard.offsets


def test_group_with_members_is_not_deleted() -> None:
    world = World()
    world.stable(1)
    assert world.submit(DeleteGroup("g")).error is ErrorCode.NON_EMPTY_GROUP


def test_missing_group_is_not_deleted() -> None:
    assert World().submit(DeleteGroup("g")).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_issued_id_does_not_outlive_its_group() -> None:
    world = World()
    member_id = world.join().result.member_id
    assert world.submit(DeleteGroup("g")).error is ErrorCode.NONE
    assert not world.timers
    assert world.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_deleted_topic_takes_its_offsets_along() -> None:
    world = World()
    world.commit(offsets=[OffsetToCommit(topic, 0, 1, -1, "", ID) for topic in ("t", "u")])
    world.submit(ForgetTopic("g", "t"))
    assert committed(world, "t") is None
    assert committed(world, "u") == 1


def test_added_partitions_begin_at_their_first_offset_for_the_groups_that_read_their_topic() -> None:
    world = World()
    add = GrowTopic("g", "topics", ID, 1, 3)
    world.commit(offsets=[OffsetToCommit("topics", 0, 1, -1, "", ID)])
    assert not list(decide(world.shard, add, NOW))  # a simple group assigns its partitions itself
    (member,) = world.stable(1)
    begun = [Append(OffsetCommitted("g", "topics", number, 0, -1, "", NOW, -1, ID)) for number in (1, 2)]
    assert list(decide(world.shard, add, NOW)) == begun
    assert not list(decide(world.shard, GrowTopic("g", "other", ID, 1, 3), NOW))
    world.commit(member, 1, offsets=[OffsetToCommit("topics", 2, 9, -1, "", ID)])
    assert list(decide(world.shard, add, NOW)) == begun[:1]
    world.leave(Leaving(member))  # without members its offsets show what it reads
    assert list(decide(world.shard, add, NOW)) == begun[:1]
    assert not list(decide(world.shard, GrowTopic("g", "other", ID, 1, 3), NOW))


# -- expiry


def expire_after(world: World, by_ms: int) -> None:
    world.now_ms += by_ms
    world.submit(ExpireOffsets("g"))


def test_offsets_of_a_simple_group_expire_by_their_commit_and_the_group_with_them() -> None:
    world = World()
    world.commit()
    expire_after(world, RETENTION_MS - 1)
    assert committed(world) == 7
    expire_after(world, 1)
    assert not world.shard.groups


def test_offsets_of_an_empty_group_expire_by_when_it_became_empty() -> None:
    world = World()
    (member,) = world.stable(1)
    world.commit(member, 1)
    world.advance(SESSION_MS - 1)
    world.leave(Leaving(member))
    expire_after(world, RETENTION_MS - 1)
    assert committed(world) == 7
    expire_after(world, 1)
    assert not world.shard.groups
    assert not world.shard.offsets


def test_stable_group_expires_only_offsets_of_topics_without_subscribers() -> None:
    world = World()
    (member,) = world.stable(1)
    world.commit(member, 1, offsets=[OffsetToCommit(topic, 0, 1, -1, "", ID) for topic in ("topics", "old")])
    expire_after(world, RETENTION_MS)
    assert committed(world, "topics") == 1
    assert committed(world, "old") is None
    assert world.group().members


def test_nothing_expires_while_a_round_runs() -> None:
    world = World()
    leader, _ = world.stable(2, session_timeout_ms=1_000_000)
    world.commit(leader, 1)
    world.join(leader)
    expire_after(world, RETENTION_MS)
    assert committed(world) == 7


def test_offset_with_its_own_retention_lives_so_long() -> None:
    world = World()
    world.commit(retention_ms=500)
    expire_after(world, 499)
    assert committed(world) == 7
    expire_after(world, 1)
    assert committed(world) is None


def test_empty_group_that_never_committed_is_forgotten() -> None:
    world = World()
    world.join()
    world.advance(SESSION_MS)
    world.submit(ExpireOffsets("g"))
    assert not world.shard.groups


def test_group_that_awaits_an_issued_id_is_kept() -> None:
    world = World()
    world.join()
    world.submit(ExpireOffsets("g"))
    assert world.group().pending


# -- replaying


def test_offsets_that_outlive_their_groups_record_belong_to_a_simple_group() -> None:
    world = World()
    world.commit()
    cause = Cause(CauseKind.ADMIN_REQUEST, NOW)
    shard = fold([*world.log, [GroupDeleted("g", cause)]], world.settings)
    assert shard.groups["g"].is_simple
    assert REBALANCE_MS
