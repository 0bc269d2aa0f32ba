"""Rounds of eager groups: their members learn of them together, since each stands still until the last has joined."""

from __future__ import annotations

from typing import Any

from tests.unit.node.consumer_desk import NativeMember
from tests.unit.node.desk import Desk
from tests.unit.node.group_desk import GroupMember, committed, group_desk, stable_group
from tests.unit.node.groups.test_coordinator import events

from kohort.parking.client_software import software_named
from kohort.wire.messages import LeaveGroupRequest, MetadataRequest

INTERVAL_MS = 3_000
SESSION_MS = 10_000
REBALANCE_TIMEOUT_MS = 60_000
REBALANCE_IN_PROGRESS = 27
UNKNOWN_MEMBER_ID = 25


def settled(count: int = 3, **fields: Any) -> tuple[Desk, list[GroupMember]]:
    """Return a stable group whose heartbeats are all parked, but for the last member's: a commit had it answered."""
    desk = group_desk(kohort_group_heartbeat_park=True)
    members = stable_group(desk, count, **fields)
    for _ in range(2):  # the second time the interval is known
        desk.advance(INTERVAL_MS)
        for member in members:
            member.peer.send(member.heartbeat_request(), 4)
    members[-1].peer.send(members[-1].commit_request(), 9)
    for member in members:
        assert set(codes(member)) <= {0}
    return desk, members


def codes(member: GroupMember) -> list[int]:
    """Take the error codes of the answers that a member has got."""
    answers = member.peer.answers()
    return [
        each.error_code if hasattr(each, "error_code") else each.topics[0].partitions[0].error_code for each in answers
    ]


def beat(member: GroupMember) -> None:
    member.peer.send(member.heartbeat_request(), 4)


def beat_again(desk: Desk, members: list[GroupMember]) -> list[int]:
    """Let an interval pass in which each member sends its next heartbeat on time; return all answers."""
    desk.advance(INTERVAL_MS)
    for member in members:
        beat(member)
    return [code for member in members for code in codes(member)]


def leave(member: GroupMember) -> None:
    entry = LeaveGroupRequest.Member(member_id=member.member_id)
    member.peer.send(LeaveGroupRequest(group_id="g", members=[entry]), 5)


def test_eager_members_learn_of_a_round_with_the_last_that_can_be_reached() -> None:
    desk, (one, other, absent) = settled()
    GroupMember(desk).enter()
    desk.advance(1_000)
    assert codes(one) == codes(other) == []
    beat(absent)
    assert codes(one) == codes(other) == codes(absent) == [REBALANCE_IN_PROGRESS]


def test_event_has_the_time_that_members_waited_for_the_announcement() -> None:
    desk, (_, _, absent) = settled()
    GroupMember(desk).enter()
    desk.advance(1_000)
    beat(absent)
    announced = [each for each in events(desk) if each["event"] == "round_announced"]
    assert [each["waited_ms"] for each in announced] == [1_000]


def test_heartbeat_that_comes_while_a_round_is_announced_waits_for_the_others() -> None:
    desk, (one, second, third) = settled()
    second.peer.send(second.commit_request(), 9)
    assert codes(second) == [0, 0]
    desk.advance(INTERVAL_MS - 1_000)
    GroupMember(desk).enter()
    assert codes(one) == []
    desk.advance(500)
    beat(second)
    desk.advance(100)
    assert codes(one) == codes(second) == []
    beat(third)
    assert codes(one) == codes(second) == codes(third) == [REBALANCE_IN_PROGRESS]


def test_cooperative_members_learn_of_a_round_at_once_since_none_of_them_stops() -> None:
    desk, (one, other, absent) = settled(protocol="cooperative-sticky")
    newcomer = GroupMember(desk)
    newcomer.protocol = "cooperative-sticky"
    newcomer.enter()
    assert codes(one) == codes(other) == [REBALANCE_IN_PROGRESS]
    beat(absent)
    assert codes(absent) == [REBALANCE_IN_PROGRESS]


def test_round_is_announced_when_the_member_it_waited_for_joins_by_itself() -> None:
    desk, (one, other, absent) = settled()
    leave(other)
    assert codes(one) == []
    absent.peer.send(absent.join_request(), 9)
    assert codes(one) == [REBALANCE_IN_PROGRESS]
    assert codes(absent) == []
    assert desk.node.coordinator.describe("g").state == "PreparingRebalance"  # type: ignore[union-attr]


def test_round_is_announced_when_the_member_it_waited_for_leaves() -> None:
    desk, (one, other, absent) = settled()
    GroupMember(desk).enter()
    leave(absent)
    assert codes(one) == codes(other) == [REBALANCE_IN_PROGRESS]


def test_commit_behind_a_heartbeat_is_carried_out_at_once_and_answered_when_the_round_is_announced() -> None:
    desk, (one, _, absent) = settled()
    GroupMember(desk).enter()
    one.peer.send(one.commit_request(0, 11), 9)
    assert committed(desk.connect(), 0) == 11
    desk.advance(500)
    assert codes(one) == []
    beat(absent)
    assert codes(one) == [REBALANCE_IN_PROGRESS, 0]


def test_request_that_cannot_wait_has_its_member_learn_of_the_round_alone() -> None:
    desk, (one, other, _) = settled()
    GroupMember(desk).enter()
    one.peer.send(MetadataRequest(topics=None), 9)
    heartbeat, _ = one.peer.answers()
    assert heartbeat.error_code == REBALANCE_IN_PROGRESS
    assert codes(other) == []


def test_members_continue_while_a_dead_one_is_awaited_and_learn_of_the_round_when_it_is_evicted() -> None:
    desk, (one, other, dead) = settled()
    dead.peer.leave()
    GroupMember(desk).enter()
    assert beat_again(desk, [one, other]) == [0, 0]
    assert beat_again(desk, [one, other]) == [0, 0]
    one.peer.send(one.commit_request(), 9)
    assert codes(one) == [0, 0]  # this long after the round began, a commit is answered at once
    assert beat_again(desk, [one, other]) == [0]
    desk.advance(SESSION_MS - 3 * INTERVAL_MS)
    assert codes(one) == codes(other) == [REBALANCE_IN_PROGRESS]


def test_members_learn_of_a_round_while_half_of_its_rebalance_timeout_is_left() -> None:
    desk, (one, _) = settled(2, session_timeout_ms=REBALANCE_TIMEOUT_MS)
    GroupMember(desk).enter()
    for _ in range(REBALANCE_TIMEOUT_MS // 2 // INTERVAL_MS - 1):
        assert beat_again(desk, [one]) == [0]
    desk.advance(INTERVAL_MS - 1)
    assert codes(one) == []
    desk.advance(1)
    assert codes(one) == [REBALANCE_IN_PROGRESS]


def test_heartbeat_is_answered_before_its_sender_minds_though_the_round_is_not_announced() -> None:
    desk, (one, other, absent) = settled()
    GroupMember(desk).enter()
    desk.advance(INTERVAL_MS + 250)
    assert codes(one) == codes(other) == [0]
    beat(one)
    beat(absent)
    assert codes(one) == codes(absent) == [REBALANCE_IN_PROGRESS]
    beat(other)
    assert codes(other) == [REBALANCE_IN_PROGRESS]


def test_member_whose_connection_breaks_is_awaited_again() -> None:
    desk, (one, other, absent) = settled()
    GroupMember(desk).enter()
    other.peer.leave()
    beat(absent)
    assert codes(one) == codes(absent) == []
    other.peer = desk.connect()
    beat(other)
    assert codes(one) == codes(absent) == codes(other) == [REBALANCE_IN_PROGRESS]


def test_member_removed_by_an_administrator_learns_it_at_once() -> None:
    desk, (one, other, _) = settled()
    GroupMember(desk).enter()
    entry = LeaveGroupRequest.Member(member_id=other.member_id)
    desk.connect().send(LeaveGroupRequest(group_id="g", members=[entry]), 5)
    assert codes(other) == [UNKNOWN_MEMBER_ID]
    assert codes(one) == []


def test_first_heartbeat_of_a_generation_waits_for_the_others_too() -> None:
    desk = group_desk(kohort_group_heartbeat_park=True)
    one, other = stable_group(desk, 2)
    GroupMember(desk).enter()
    desk.advance(INTERVAL_MS)
    beat(one)
    desk.advance(100)
    assert codes(one) == []
    beat(other)
    assert codes(one) == codes(other) == [REBALANCE_IN_PROGRESS]


def test_static_java_member_whose_heartbeats_are_not_parked_learns_of_a_round_with_the_others() -> None:
    desk = group_desk(kohort_group_heartbeat_park=True)
    java, absent = stable_group(desk, 2)
    java.peer.connection.client_software = software_named("apache-kafka-java", "4.3.1")
    coordinator = desk.node.coordinator
    group = coordinator.partitions[coordinator.partition_of("g")].shard.groups["g"]
    java.instance_id = group.members[java.member_id].instance_id = "i"
    group.static_members["i"] = java.member_id
    desk.advance(INTERVAL_MS)
    beat(java)
    assert codes(java) == [0]
    GroupMember(desk).enter()
    desk.advance(INTERVAL_MS)
    beat(java)
    desk.advance(100)
    assert codes(java) == []
    beat(absent)
    assert codes(java) == codes(absent) == [REBALANCE_IN_PROGRESS]


def test_round_in_which_no_member_reads_is_announced_at_once() -> None:
    desk, (one, other, absent) = settled()
    newcomer = GroupMember(desk)
    newcomer.enter()
    beat(absent)
    for member in (one, other, absent):
        member.peer.answers()
        member.peer.send(member.join_request(), 9)
    one.joined()  # its assignment is awaited when the next round begins
    leave(newcomer)
    beat(one)
    assert codes(one)[-1] == REBALANCE_IN_PROGRESS


def test_round_that_ends_in_a_conversion_to_the_consumer_protocol_is_announced_no_longer() -> None:
    desk, (one, other, absent) = settled()
    GroupMember(desk).enter()
    assert codes(one) == []
    native = NativeMember(desk, "native")
    assert native.join().error_code == 0
    (group,) = desk.node.coordinator.list_groups(frozenset(), frozenset())
    assert group.group_type == "consumer"
    parking = desk.node.coordinator.runtime.classic_parking
    assert all(each.announcement is None for each in parking._groups.values())
    desk.advance(INTERVAL_MS)
    beat(absent)
    assert len(codes(one)) == len(codes(other)) == 1


def test_group_that_is_unloaded_answers_members_that_wait_for_the_announcement() -> None:
    desk, (one, other, _) = settled()
    GroupMember(desk).enter()
    coordinator = desk.node.coordinator
    hosted = coordinator.partitions[coordinator.partition_of("g")]
    coordinator.runtime.unload(hosted)
    desk.advance(0)
    assert codes(one) == codes(other) == [15]
    assert coordinator.runtime.classic_parking._groups == {}


def test_clients_that_are_gone_leave_no_announcement_behind() -> None:
    desk, members = settled()
    newcomer = GroupMember(desk)
    newcomer.enter()
    for member in (*members, newcomer):
        member.peer.leave()
    desk.advance(SESSION_MS + 5 * 60_000)
    assert desk.node.coordinator.runtime.classic_parking._groups == {}
    assert len(desk.node.coordinator.describe("g").members) == 0  # type: ignore[union-attr]


def test_each_member_learns_by_its_own_heartbeat_when_parking_is_off() -> None:
    desk = group_desk()
    one, other, _ = stable_group(desk, 3)
    GroupMember(desk).enter()
    assert one.heartbeat() == REBALANCE_IN_PROGRESS
    assert other.heartbeat() == REBALANCE_IN_PROGRESS


def group_with_one_heartbeat_each() -> tuple[Desk, list[GroupMember]]:
    """Return a stable group of which one heartbeat each has come: whether the next needs its answer is not known."""
    desk = group_desk(kohort_group_heartbeat_park=True)
    members = stable_group(desk, 3)
    desk.advance(INTERVAL_MS)
    for member in members:
        beat(member)
    members[-1].peer.send(members[-1].commit_request(), 9)
    assert codes(members[-1]) == [0, 0]
    desk.advance(1_000)
    GroupMember(desk).enter()
    return desk, members


def test_heartbeat_of_an_unknown_pace_waits_for_the_others_within_an_interval_of_the_round() -> None:
    desk, (one, other, absent) = group_with_one_heartbeat_each()
    desk.advance(INTERVAL_MS - 500)
    # If it was answered by now, the next could be a whole interval away, as that of kgo is.
    assert codes(one) == codes(other) == []
    beat(absent)
    assert codes(one) == codes(other) == codes(absent) == [REBALANCE_IN_PROGRESS]


def test_heartbeat_of_an_unknown_pace_waits_no_longer_than_an_interval_for_a_member_without_heartbeats() -> None:
    desk, (one, _, _) = group_with_one_heartbeat_each()
    desk.advance(INTERVAL_MS + 100)
    assert codes(one) == [0]
