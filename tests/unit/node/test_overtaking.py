"""Requests of a member whose own JoinGroup or SyncGroup waits on the connection: some are carried out on arrival."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node.desk import Desk, Peer, fetch
from tests.unit.node.group_desk import GroupMember, committed, group_desk, stable_group

from kohort.wire.messages import LeaveGroupRequest, SyncGroupResponse

ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25


def gathering(**settings: Any) -> tuple[Desk, GroupMember, GroupMember]:
    """Return a group in a round: one member has joined again and waits for the other."""
    desk = group_desk(**settings)
    leader, follower = stable_group(desk)
    GroupMember(desk).enter()
    leader.peer.send(leader.join_request(), 9)
    return desk, leader, follower


def answers(peer: Peer) -> list[str]:
    return [type(answer).__name__ for _, answer in peer.replies]


def commit_error(member: GroupMember) -> int:
    """Return the error of the last answer, which is a commit's."""
    return member.peer.replies[-1][1].topics[0].partitions[0].error_code  # type: ignore[no-any-return]


def leave_request(member: GroupMember) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id=member.member_id)])


def test_commit_of_the_generation_that_stands_is_carried_out_behind_a_waiting_join() -> None:
    desk, leader, follower = gathering()
    leader.peer.send(leader.commit_request(0, 11), 9)
    assert committed(desk.connect(), 0) == 11
    assert answers(leader.peer) == []
    follower.peer.send(follower.join_request(), 9)
    assert answers(leader.peer) == ["JoinGroupResponse", "OffsetCommitResponse"]
    assert commit_error(leader) == 0


def test_commit_in_one_chunk_with_its_join_is_carried_out_too() -> None:
    desk = group_desk()
    leader, _ = stable_group(desk)
    GroupMember(desk).enter()
    join, _ = leader.peer.frame(leader.join_request(), 9)
    commit, _ = leader.peer.frame(leader.commit_request(0, 11), 9)
    leader.peer.feed(join + commit)
    assert committed(desk.connect(), 0) == 11


def test_commit_overtakes_a_request_that_waits_behind_the_join() -> None:
    desk, leader, follower = gathering()
    leader.peer.send(leader.heartbeat_request(), 4)
    leader.peer.send(leader.commit_request(0, 11), 9)
    assert committed(desk.connect(), 0) == 11
    follower.peer.send(follower.join_request(), 9)
    # The heartbeat has its turn when the join is answered, and its answer leaves before that of the commit.
    assert answers(leader.peer) == ["JoinGroupResponse", "HeartbeatResponse", "OffsetCommitResponse"]


def test_leave_overtakes_a_request_that_waits_behind_the_join_and_is_answered_behind_it() -> None:
    _, leader, _ = gathering()
    leader.peer.send(leader.heartbeat_request(), 4)
    leader.peer.send(leave_request(leader), 5)
    assert answers(leader.peer) == ["JoinGroupResponse", "HeartbeatResponse", "LeaveGroupResponse"]


def test_commit_that_the_group_would_refuse_now_waits_for_its_turn() -> None:
    desk, leader, follower = gathering()
    follower.peer.send(follower.join_request(), 9)
    for member in (leader, follower):
        member.joined()
    follower.peer.send(follower.sync_request(), 5)
    follower.peer.send(follower.commit_request(0, 11), 9)
    assert committed(desk.connect(), 0) == -1  # it has no assignment of this generation yet
    leader.peer.send(leader.sync_request(**{follower.member_id: [0]}), 5)
    assert commit_error(follower) == 0
    assert committed(desk.connect(), 0) == 11


def test_commit_behind_a_withheld_sync_is_carried_out() -> None:
    desk = group_desk(kohort_group_sync_hold_ms=1_000)
    leader, follower = stable_group(desk)
    coordinator = desk.node.coordinator
    group = coordinator.partitions[coordinator.partition_of("g")].shard.groups["g"]
    group.is_withholding = True
    group.revoking = {leader.member_id}
    follower.peer.send(follower.sync_request(), 5)
    follower.peer.send(follower.commit_request(0, 11), 9)
    assert committed(desk.connect(), 0) == 11
    assert answers(follower.peer) == []


def test_a_program_that_waits_for_its_commit_waits_for_no_later_revocation() -> None:
    desk = group_desk(kohort_group_sync_hold_ms=1_000)
    leader, follower = stable_group(desk)
    coordinator = desk.node.coordinator
    group = coordinator.partitions[coordinator.partition_of("g")].shard.groups["g"]
    follower.peer.send(follower.commit_request(0, 10), 9)
    group.is_withholding = group.is_revoking_later = True
    group.revoking = {leader.member_id}
    for member in (leader, follower):
        member.peer.send(member.sync_request(), 5)
    desk.advance(100)
    assert answers(leader.peer) == []
    follower.peer.send(follower.commit_request(0, 11), 9)  # no timer is as fast
    assert answers(leader.peer) == ["SyncGroupResponse"]


def test_a_heartbeat_that_would_be_parked_is_answered_for_the_commit_that_overtook_it() -> None:
    desk = group_desk(kohort_group_sync_hold_ms=1_000, kohort_group_heartbeat_park=True)
    leader, follower = stable_group(desk)
    for _ in range(2):  # the second time the interval is known
        desk.advance(3_000)
        for member in (leader, follower):
            member.peer.send(member.heartbeat_request(), 4)
            member.peer.send(member.commit_request(), 9)
            assert len(member.peer.answers()) == 2
    desk.advance(3_000)
    coordinator = desk.node.coordinator
    group = coordinator.partitions[coordinator.partition_of("g")].shard.groups["g"]
    group.is_withholding = True
    group.revoking = {leader.member_id}
    follower.peer.send(follower.sync_request(), 5)
    follower.peer.send(follower.heartbeat_request(), 4)
    follower.peer.send(follower.commit_request(0, 11), 9)
    group.is_withholding = False
    (waiting,) = follower.peer.connection.outstanding
    waiting.reply(SyncGroupResponse())
    desk.node.connections.settle()
    assert answers(follower.peer) == ["SyncGroupResponse", "HeartbeatResponse", "OffsetCommitResponse"]


@pytest.mark.parametrize("fields", [{"group_id": "other"}, {"generation_id_or_member_epoch": 99}])
def test_commit_of_another_group_or_generation_waits_for_its_turn(fields: dict[str, Any]) -> None:
    _, leader, _ = gathering()
    leader.peer.send(leader.commit_request(0, 11, **fields), 9)
    assert len(leader.peer.connection.backlog) == 1


def test_commit_behind_a_waiting_fetch_waits_for_its_turn() -> None:
    desk = group_desk()
    leader, _ = stable_group(desk)
    leader.peer.send(fetch("orders", max_wait_ms=500), 4)
    leader.peer.send(leader.commit_request(0, 11), 9)
    assert len(leader.peer.connection.backlog) == 1


def test_member_that_leaves_while_its_join_waits_is_awaited_no_longer() -> None:
    _, leader, follower = gathering()
    leader.peer.send(leader.commit_request(0, 11), 9)
    leader.peer.send(leave_request(leader), 5)
    joined, stored, left = leader.peer.answers()
    assert joined.error_code == UNKNOWN_MEMBER_ID
    assert stored.topics[0].partitions[0].error_code == left.error_code == left.members[0].error_code == 0
    follower.peer.send(follower.join_request(), 9)
    (formed,) = follower.peer.answers()
    assert leader.member_id not in {member.member_id for member in formed.members}


def test_leave_of_another_member_waits_for_its_turn() -> None:
    _, leader, follower = gathering()
    leader.peer.send(leave_request(follower), 5)
    assert len(leader.peer.connection.backlog) == 1


def test_requests_behind_a_commit_that_overtook_continue_waiting_for_the_join() -> None:
    _, leader, _ = gathering()
    leader.peer.send(leader.commit_request(0, 11), 9)
    leader.peer.send(leader.heartbeat_request(), 4)
    leader.peer.send(leader.join_request(), 9)
    assert len(leader.peer.connection.backlog) == 2


def test_client_that_is_gone_has_committed_all_the_same() -> None:
    desk, leader, _ = gathering()
    leader.peer.send(leader.commit_request(0, 11), 9)
    leader.peer.leave()
    assert committed(desk.connect(), 0) == 11


def test_commit_waits_for_its_turn_where_requests_may_not_overtake() -> None:
    _, leader, follower = gathering(kohort_group_requests_overtake=False)
    leader.peer.send(leader.commit_request(0, 11), 9)
    leader.peer.send(leave_request(leader), 5)
    assert len(leader.peer.connection.backlog) == 2
    follower.peer.send(follower.join_request(), 9)
    assert leader.peer.replies[1][1].topics[0].partitions[0].error_code == ILLEGAL_GENERATION


def test_garbled_commit_behind_a_join_is_refused_in_its_turn() -> None:
    _, leader, follower = gathering()
    commit, _ = leader.peer.frame(leader.commit_request(0, 11), 9)
    cut = commit[4:-6]
    leader.peer.feed(len(cut).to_bytes(4, "big") + cut)
    assert leader.peer.closed is None
    follower.peer.send(follower.join_request(), 9)
    assert leader.peer.closed is not None
