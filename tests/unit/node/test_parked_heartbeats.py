"""Parking of heartbeats of classic members, through a node."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node.desk import Desk, fetch
from tests.unit.node.group_desk import GroupMember, committed, group_desk, stable_group

from kohort.model.errors import ErrorCode
from kohort.parking.client_software import JAVA, KGO, software_named
from kohort.wire.messages import DescribeGroupsRequest, LeaveGroupRequest, MetadataRequest

INTERVAL_MS, COMMIT_MS = 3_000, 5_000
REBALANCE_IN_PROGRESS = 27
UNKNOWN_MEMBER_ID = 25
FENCED_INSTANCE_ID = 82


def settled(count: int = 2, **fields: Any) -> tuple[Desk, list[GroupMember]]:
    """Return a stable group whose members have each sent a heartbeat one interval after they were assigned."""
    desk = group_desk(kohort_group_heartbeat_park=True)
    members = stable_group(desk, count, **fields)
    desk.advance(INTERVAL_MS)
    for member in members:
        member.peer.send(member.heartbeat_request(), 4)
    return desk, members


def codes(member: GroupMember) -> list[int]:
    """Take the error codes of the answers that a member has got."""
    return [answer.error_code for answer in member.peer.answers()]


def test_heartbeat_without_an_update_waits() -> None:
    desk, (leader, follower) = settled()
    desk.advance(INTERVAL_MS - 1)
    assert codes(leader) == codes(follower) == []


def test_parked_heartbeat_is_answered_the_moment_a_member_joins() -> None:
    desk, (leader, follower) = settled()
    GroupMember(desk).enter()
    assert codes(leader) == codes(follower) == [REBALANCE_IN_PROGRESS]


def test_id_issued_to_a_newcomer_is_no_round_and_answers_no_parked_heartbeat() -> None:
    desk, (leader, follower) = settled()
    newcomer = GroupMember(desk)
    newcomer.peer.send(newcomer.join_request(), 9)
    assert codes(leader) == codes(follower) == []


def test_parked_heartbeat_is_answered_the_moment_a_member_leaves() -> None:
    _, (leader, follower) = settled()
    member = LeaveGroupRequest.Member(member_id=follower.member_id)
    follower.peer.send(LeaveGroupRequest(group_id="g", members=[member]), 5)
    assert codes(leader) == [REBALANCE_IN_PROGRESS]


def test_heartbeat_is_answered_before_the_request_behind_it() -> None:
    _, (leader, follower) = settled()
    follower.peer.send(follower.commit_request(), 9)
    heartbeat, commit = follower.peer.answers()
    assert heartbeat.error_code == 0
    assert commit.topics[0].partitions[0].error_code == 0
    assert codes(leader) == []


def settled_client(software: str) -> tuple[Desk, GroupMember]:
    """Return the member of a stable group, of this client, whose heartbeat is parked."""
    desk = group_desk(kohort_group_heartbeat_park=True)
    (member,) = stable_group(desk, 1, session_timeout_ms=45_000)
    member.peer.connection.client_software = software_named(software, "9")
    parking = desk.node.coordinator.runtime.classic_parking
    for _ in range(2):
        if not len(parking):
            desk.advance(INTERVAL_MS)
            member.peer.send(member.heartbeat_request(), 4)
    member.peer.answers()
    assert len(parking) == 1
    return desk, member


def test_answer_to_a_commit_goes_ahead_where_the_client_matches_answers_by_id() -> None:
    desk, member = settled_client("librdkafka")
    for offset in (11, 12):
        member.peer.send(member.commit_request(0, offset), 9)
        (commit,) = member.peer.answers()
        assert commit.topics[0].partitions[0].error_code == 0
    GroupMember(desk).enter()
    assert codes(member) == [REBALANCE_IN_PROGRESS]


@pytest.mark.parametrize(
    ("software", "error"), [(JAVA, ErrorCode.REQUEST_TIMED_OUT), (KGO, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
)
def test_commit_of_a_client_that_sends_its_heartbeat_again_ends_it_with_the_error_for_that(
    software: str, error: ErrorCode
) -> None:
    desk, member = settled_client(software)
    member.peer.send(member.commit_request(0, 11), 9)
    heartbeat, commit = member.peer.answers()
    assert heartbeat.error_code == error
    assert commit.topics[0].partitions[0].error_code == 0
    desk.advance(100)
    member.peer.send(member.heartbeat_request(), 4)
    assert codes(member) == []
    GroupMember(desk).enter()
    assert codes(member) == [REBALANCE_IN_PROGRESS]


def committing_by_timer(commit_delay_ms: int, after_ms: int = COMMIT_MS) -> tuple[Desk, GroupMember]:
    """Return a member that has committed three times by its timer, and `after_ms` later sends heartbeat and commit."""
    desk = group_desk(kohort_group_heartbeat_park=True, kohort_group_commit_delay_ms=commit_delay_ms)
    (member,) = stable_group(desk, 1)
    for pause_ms in (COMMIT_MS, COMMIT_MS, COMMIT_MS, after_ms):
        desk.advance(pause_ms)
        member.peer.answers()
        member.peer.send(member.heartbeat_request(), 4)
        member.peer.send(member.commit_request(0, 11), 9)
    return desk, member


def test_commit_of_a_timer_waits_behind_a_parked_heartbeat_for_the_configured_delay() -> None:
    desk, member = committing_by_timer(400)
    desk.advance(399)
    assert (member.peer.replies, committed(desk.connect())) == ([], 11)
    desk.advance(1)
    assert len(member.peer.answers()) == 2


def test_commit_that_comes_at_another_time_is_answered_at_once_since_its_member_may_be_leaving() -> None:
    _, member = committing_by_timer(400, after_ms=COMMIT_MS // 2)
    assert len(member.peer.answers()) == 2


def test_commit_that_waits_is_answered_with_the_heartbeat_when_a_round_begins() -> None:
    desk, member = committing_by_timer(INTERVAL_MS)
    GroupMember(desk).enter()
    heartbeat, commit = member.peer.answers()
    assert heartbeat.error_code == REBALANCE_IN_PROGRESS
    assert commit.topics[0].partitions[0].error_code == 0


def test_heartbeat_in_one_chunk_with_a_commit_preserves_the_order_of_answers() -> None:
    desk, (leader, _) = settled()
    desk.advance(INTERVAL_MS + 500)
    assert codes(leader) == [0]
    heartbeat, first = leader.peer.frame(leader.heartbeat_request(), 4)
    commit, second = leader.peer.frame(leader.commit_request(), 9)
    leader.peer.feed(heartbeat + commit)
    assert [number for number, _ in leader.peer.replies] == [first, second]


def test_next_heartbeat_has_the_last_one_answered() -> None:
    desk, (leader,) = settled(1)
    for _ in range(5):
        desk.advance(INTERVAL_MS)
        assert codes(leader) == []
        leader.peer.send(leader.heartbeat_request(), 4)
        assert codes(leader) == [0]


def test_parked_heartbeat_is_answered_a_little_after_its_interval() -> None:
    desk, (leader, _) = settled()
    desk.advance(INTERVAL_MS + 249)
    assert codes(leader) == []
    desk.advance(1)
    assert codes(leader) == [0]
    desk.advance(INTERVAL_MS)
    assert codes(leader) == []


def test_leave_behind_a_parked_heartbeat_is_served_at_once() -> None:
    _, (_, follower) = settled()
    member = LeaveGroupRequest.Member(member_id=follower.member_id)
    follower.peer.send(LeaveGroupRequest(group_id="g", members=[member]), 5)
    assert codes(follower) == [0, 0]


def test_client_that_is_gone_leaves_nothing_behind() -> None:
    desk, (leader, follower) = settled()
    assert len(desk.node.coordinator.runtime.classic_parking) == 2
    leader.peer.leave()
    follower.peer.leave()
    assert len(desk.node.coordinator.runtime.classic_parking) == 0
    desk.advance(2 * INTERVAL_MS)


def test_member_removed_by_an_administrator_learns_it_from_its_parked_heartbeat() -> None:
    desk, (leader, follower) = settled()
    member = LeaveGroupRequest.Member(member_id=follower.member_id)
    desk.connect().send(LeaveGroupRequest(group_id="g", members=[member]), 5)
    assert codes(follower) == [UNKNOWN_MEMBER_ID]
    assert codes(leader) == [REBALANCE_IN_PROGRESS]


def test_replaced_static_member_is_fenced_by_its_parked_heartbeat() -> None:
    desk, (old,) = settled(1, instance_id="i-1")
    new = GroupMember(desk, instance_id="i-1")
    new.peer.send(new.join_request(), 9)
    assert codes(old) == [FENCED_INSTANCE_ID]
    assert new.joined().generation_id == old.generation


def test_nothing_is_parked_while_a_round_gathers() -> None:
    desk, (leader, follower) = settled()
    GroupMember(desk).enter()
    assert codes(leader) == codes(follower) == [REBALANCE_IN_PROGRESS]
    desk.advance(INTERVAL_MS)
    leader.peer.send(leader.heartbeat_request(), 4)
    assert codes(leader) == [REBALANCE_IN_PROGRESS]


def test_nothing_is_parked_while_the_assignment_is_awaited() -> None:
    desk, (leader, follower) = settled()
    GroupMember(desk).enter()
    for member in (leader, follower):
        member.peer.answers()
        member.peer.send(member.join_request(), 9)
    leader.joined()
    desk.advance(INTERVAL_MS)
    leader.peer.send(leader.heartbeat_request(), 4)
    assert codes(leader) == [0]


def test_session_runs_from_when_a_heartbeat_came_not_from_when_it_was_answered() -> None:
    desk, (leader, follower) = settled()
    desk.advance(9_999)
    assert codes(leader) == codes(follower) == [0]
    desk.advance(1)
    assert desk.node.coordinator.describe("g").members == ()  # type: ignore[union-attr]


def test_parked_heartbeat_renews_its_members_session_as_any_other() -> None:
    desk, (leader, follower) = settled()
    for _ in range(20):
        desk.advance(INTERVAL_MS)
        for member in (leader, follower):
            member.peer.send(member.heartbeat_request(), 4)
            assert codes(member) == [0]
    assert len(desk.node.coordinator.describe("g").members) == 2  # type: ignore[union-attr]


def test_heartbeat_of_a_static_java_member_is_answered_at_once_since_its_close_waits_for_that() -> None:
    desk = group_desk(kohort_group_heartbeat_park=True)
    (member,) = stable_group(desk, 1, instance_id="i")
    member.peer.connection.client_software = software_named(JAVA, "4.3.1")
    for _ in range(3):
        desk.advance(INTERVAL_MS)
        assert member.heartbeat() == 0


@pytest.mark.parametrize(("commits", "answered"), [(True, [0]), (False, [])])
def test_heartbeat_of_a_kgo_member_that_commits_by_itself_is_answered_at_once(
    *, commits: bool, answered: list[int]
) -> None:
    """A commit would cut its wait short, and kgo's next heartbeat comes an interval after the answer."""
    desk = group_desk(kohort_group_heartbeat_park=True)
    (member,) = stable_group(desk, 1)
    member.peer.connection.client_software = software_named(KGO, "v1.20.0")
    for beat in range(4):
        desk.advance(INTERVAL_MS)
        member.peer.send(member.heartbeat_request(), 4)
        if beat < 3:
            member.peer.answers()
            if commits:
                assert member.commit() == 0
    assert codes(member) == answered


@pytest.mark.parametrize(("software", "assignor"), [("sarama", "range"), ("unknown", "RoundRobinAssigner")])
def test_clients_that_do_nothing_else_meanwhile_have_heartbeats_answered_at_once(software: str, assignor: str) -> None:
    # sarama names itself, kafkajs by its assignor alone.
    desk = group_desk(kohort_group_heartbeat_park=True)
    member, other = stable_group(desk, 2, assignor)
    if software != "unknown":
        member.peer.connection.client_software = software_named(software, "9")
    for _ in range(3):
        desk.advance(INTERVAL_MS)
        assert member.heartbeat() == 0
    other.peer.send(LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id=other.member_id)]), 5)
    assert member.heartbeat() == REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("is_closed", [True, False])
def test_session_runs_from_the_last_heartbeat_whether_its_connection_closes_or_releases_it(is_closed: bool) -> None:
    desk, (member,) = settled(1, instance_id="i")
    watcher = desk.connect()
    desk.advance(2_000)
    if is_closed:
        member.peer.leave()
    else:
        member.peer.send(MetadataRequest(topics=[]), 12)
    desk.advance(10_000 - 2_000 - 1)
    assert len(watcher.call(DescribeGroupsRequest(groups=["g"]), 5).groups[0].members) == 1
    desk.advance(1)
    assert not watcher.call(DescribeGroupsRequest(groups=["g"]), 5).groups[0].members


def test_commits_of_others_disturb_no_parked_heartbeat() -> None:
    _, (leader, follower) = settled()
    leader.commit_request()
    leader.peer.send(leader.commit_request(), 9)
    assert codes(follower) == []


def test_heartbeat_behind_another_request_on_a_shared_connection_is_answered_in_order() -> None:
    desk, (leader, _) = settled()
    leader.peer.send(fetch("orders", max_wait_ms=500), 4)
    desk.advance(200)
    leader.peer.send(leader.heartbeat_request(), 4)
    leader.peer.send(MetadataRequest(topics=None), 9)
    desk.advance(INTERVAL_MS)
    assert [type(answer).__name__ for answer in leader.peer.answers()] == [
        "HeartbeatResponse",
        "FetchResponse",
        "HeartbeatResponse",
        "MetadataResponse",
    ]


def test_broker_that_stops_drops_parked_heartbeats() -> None:
    desk, (leader, follower) = settled()
    desk.node.stop(desk.clock.now_ms())
    assert codes(leader) == codes(follower) == []
    assert len(desk.node.coordinator.runtime.classic_parking) == 0


def test_parked_heartbeats_of_a_group_that_is_unloaded_are_answered() -> None:
    desk, (leader, follower) = settled()
    coordinator = desk.node.coordinator
    hosted = coordinator.partitions[coordinator.partition_of("g")]
    coordinator.runtime.unload(hosted)
    desk.advance(0)
    assert codes(leader) == codes(follower) == [15]


def test_heartbeats_are_answered_at_once_when_parking_is_off() -> None:
    desk = group_desk()
    leader, _ = stable_group(desk)
    desk.advance(INTERVAL_MS)
    assert leader.heartbeat() == 0
