"""The coordinator's runtime: records first, replies when they are durable, timers, replay, and what fails."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from tests.unit.node.desk import Desk
from tests.unit.node.group_desk import GroupMember, committed, find_coordinator, group_desk, stable_group

from kohort.log.disk import StorageError
from kohort.log.memory_disk import MemoryDisk
from kohort.model.errors import ErrorCode
from kohort.node.groups.coordinator import Coordinator
from kohort.node.groups.event_topic import LINGER_MS
from kohort.node.groups.offsets_partition import Status
from kohort.wire.messages import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest, OffsetFetchRequest
from kohort.wire.record_batches import Record, decode_batch, encode_batch, iter_batches

UNREADABLE = encode_batch([Record(0, 1, b"\x00\x01\x00\x05gro", b"")])


def coordinator(desk: Desk) -> Coordinator:
    return desk.node.coordinator


def records(desk: Desk, topic: str, partition: int = 0) -> list[Record]:
    found = desk.node.topics.get(topic)
    assert found is not None
    log = found.partitions[partition].log
    views = log.read(log.log_start_offset, 1 << 24) if log.log_end_offset else []
    return [record for view in views for _, batch in iter_batches(view) for record in decode_batch(batch)]


def group_records(desk: Desk, group_id: str = "g") -> list[Record]:
    return records(desk, "__consumer_offsets", coordinator(desk).partition_of(group_id))


def events(desk: Desk) -> list[dict[str, Any]]:
    desk.advance(LINGER_MS)
    return [json.loads(record.value or b"") for record in records(desk, "__kohort_group_events")]


def state(member: GroupMember, group_id: str = "g") -> str:
    (group,) = member.peer.call(DescribeGroupsRequest(groups=[group_id]), 6).groups
    return group.group_state  # type: ignore[no-any-return]


# -- running


def test_offsets_topic_appears_with_the_first_question_for_a_coordinator() -> None:
    desk = Desk(offsets_topic_num_partitions=7)
    peer = desk.connect()
    desk.node.context.listener.advertised = ("broker.example", 9099)
    found = find_coordinator(peer)
    assert (found.error_code, found.host, found.port, found.node_id) == (0, "broker.example", 9099, 1)
    topic = desk.node.topics.get("__consumer_offsets")
    assert topic is not None
    assert len(topic.partitions) == 7
    assert topic.config.get("cleanup.policy") == ("compact",)


def test_members_come_to_their_assignments_and_go() -> None:
    desk = group_desk()
    members = stable_group(desk, 3)
    assert [member.heartbeat() for member in members] == [0, 0, 0]
    assert [member.leave() for member in members] == [0, 0, 0]
    assert state(members[0]) == "Empty"


def test_group_lives_in_the_partition_that_java_computes() -> None:
    desk = group_desk()
    find_coordinator(desk.connect())
    assert coordinator(desk).partition_of("my-group") == 12


def test_member_that_sends_nothing_is_evicted_by_its_timer() -> None:
    desk = group_desk()
    leader, _silent = stable_group(desk)
    desk.advance(9_999)
    assert leader.heartbeat() == 0
    desk.advance(1)
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_waiting_join_delays_the_requests_behind_it_on_its_connection() -> None:
    desk = group_desk()
    leader, _follower = stable_group(desk)
    leader.peer.send(leader.join_request(), 9)
    leader.peer.send(DescribeGroupsRequest(groups=["g"]), 6)
    assert leader.peer.answers() == []
    desk.advance(60_000)
    join, described = leader.peer.answers()
    assert (join.error_code, described.groups[0].group_state) == (0, "CompletingRebalance")


def test_client_that_is_gone_does_not_delay_its_group() -> None:
    desk = group_desk()
    leader, follower = stable_group(desk)
    leader.peer.send(leader.join_request(), 9)
    leader.peer.leave()
    follower.peer.send(follower.join_request(), 9)
    assert follower.joined().generation_id == 2


def test_groups_of_one_partition_do_not_meet() -> None:
    desk = group_desk(offsets_topic_num_partitions=1)
    stable_group(desk, 1)
    (other,) = stable_group(desk, 1, group_id="h")
    other.leave()
    listed = other.peer.call(ListGroupsRequest(), 5).groups
    assert [(group.group_id, group.group_state) for group in listed] == [("g", "Stable"), ("h", "Empty")]


# -- replaying


def test_restarted_node_has_loaded_groups_and_offsets() -> None:
    desk = group_desk()
    leader, follower = stable_group(desk)
    assert leader.commit(offset=41) == 0
    desk = desk.restart(clean=False)
    for member in (leader, follower):
        member.peer = desk.connect()
        assert member.heartbeat() == 0
    follower.peer.send(follower.sync_request(), 5)
    (answer,) = follower.peer.answers()
    assert (answer.error_code, bool(answer.assignment)) == (0, True)
    assert committed(leader.peer) == 41


def test_restarted_node_evicts_members_that_do_not_come_back() -> None:
    desk = group_desk()
    stable_group(desk)
    desk = desk.restart()
    desk.advance(10_000)
    desk.advance(60_000)
    assert state(GroupMember(desk)) == "Empty"


def test_deleted_group_stays_deleted() -> None:
    desk = group_desk()
    (member,) = stable_group(desk, 1)
    member.commit()
    member.leave()
    assert member.peer.call(DeleteGroupsRequest(groups_names=["g"]), 3).results[0].error_code == 0
    desk = desk.restart()
    assert desk.connect().call(ListGroupsRequest(), 5).groups == []


def test_deleted_topic_takes_its_offsets_along() -> None:
    desk = group_desk()
    (member,) = stable_group(desk, 1)
    member.commit(offset=5)
    topic = desk.node.topics.get("orders")
    assert topic is not None
    desk.node.topics.delete(topic, desk.clock.now_ms())
    desk.create("orders", 3)
    assert committed(member.peer) == -1


def test_partition_that_cannot_be_replayed_is_refused_and_the_others_are_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = group_desk()
    (member,) = stable_group(desk, 1)
    topic = desk.node.topics.get("__consumer_offsets")
    assert topic is not None
    place = coordinator(desk).partition_of("g")
    topic.partitions[place].append([UNREADABLE], desk.clock.now_ms())
    with caplog.at_level(logging.ERROR, "kohort.node"):
        desk = desk.restart()
    assert f"__consumer_offsets-{place} cannot be served" in caplog.text
    assert "offset 3: a record of type 1 is malformed" in caplog.text
    member.peer = desk.connect()
    assert member.heartbeat() == ErrorCode.NOT_COORDINATOR
    (other,) = stable_group(desk, 1, group_id="another")
    assert other.heartbeat() == 0


def test_records_of_other_group_types_are_left_out_and_counted() -> None:
    desk = group_desk()
    find_coordinator(desk.connect())
    topic = desk.node.topics.get("__consumer_offsets")
    assert topic is not None
    topic.partitions[3].append([encode_batch([Record(0, 1, b"\x00\x0b\x00\x01g", b"\x00\x00")])], desk.clock.now_ms())
    desk = desk.restart()
    hosted = coordinator(desk).partitions[3]
    assert (hosted.status, hosted.skipped) == (Status.ACTIVE, 1)


def test_expired_offsets_are_forgotten_on_time() -> None:
    desk = group_desk(offsets_retention_minutes=15)
    member = GroupMember(desk)
    assert member.commit() == 0
    desk.advance(600_000)
    assert committed(member.peer) == 7
    desk.advance(600_000)
    assert committed(member.peer) == -1


# -- while a partition loads


def test_loading_coordinator_renews_sessions_and_sends_the_rest_away() -> None:
    desk = group_desk()
    (member,) = stable_group(desk, 1)
    coordinator(desk).partitions[coordinator(desk).partition_of("g")].status = Status.LOADING
    assert member.heartbeat() == 0
    assert member.commit() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert member.leave() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert member.peer.call(member.join_request(), 9).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert member.peer.call(member.sync_request(), 5).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    groups = member.peer.call(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert member.peer.call(ListGroupsRequest(), 5).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=None)])
    assert member.peer.call(fetch, 9).groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# -- a disk that fails


def test_full_disk_refuses_commits_and_loses_none_that_was_answered() -> None:
    desk = group_desk()
    (member,) = stable_group(desk, 1)
    assert member.commit(offset=1) == 0
    desk.disk.capacity = desk.disk.used
    assert member.commit(offset=2) == ErrorCode.NOT_COORDINATOR
    assert committed(member.peer) == 1
    assert member.heartbeat() == 0
    desk.disk.capacity = None
    assert member.commit(offset=3) == 0
    assert committed(desk.restart(clean=False).connect()) == 3


def test_assignments_that_cannot_be_stored_fail_the_round() -> None:
    desk = group_desk()
    leader, follower = GroupMember(desk), GroupMember(desk)
    find_coordinator(leader.peer)
    leader.enter()
    follower.enter()
    desk.advance(0)
    if leader.joined().leader != leader.member_id:
        leader, follower = follower, leader
    for member in (leader, follower):
        member.generation = 1
    answers = follower.peer.answers()
    follower.member_id = follower.member_id or answers[0].member_id
    follower.peer.send(follower.sync_request(), 5)
    desk.disk.capacity = desk.disk.used
    leader.peer.send(leader.sync_request(), 5)
    assert [leader.peer.answers()[0].error_code, follower.peer.answers()[0].error_code] == [16, 16]
    assert follower.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_offsets_topic_that_cannot_be_created_leaves_no_coordinator() -> None:
    desk = Desk(MemoryDisk())
    desk.disk.capacity = desk.disk.used
    found = find_coordinator(desk.connect())
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    desk.disk.capacity = None
    assert find_coordinator(desk.connect()).error_code == 0


# -- durability


def test_reply_waits_for_the_flush_that_was_promised() -> None:
    desk = group_desk(log_flush_interval_messages=1)
    desk.flushes_by_hand = True
    member = GroupMember(desk)
    find_coordinator(member.peer)
    desk.node.flush(desk.clock.now_ms())
    member.peer.send(member.commit_request(), 9)
    assert member.peer.answers() == []
    desk.node.flush(desk.clock.now_ms())
    (answer,) = member.peer.answers()
    assert answer.topics[0].partitions[0].error_code == 0
    desk.disk.lose_unflushed()
    assert committed(desk.restart(clean=False).connect()) == 7


def test_failed_flush_answers_an_error_and_the_groups_are_loaded_again_once_the_disk_works() -> None:
    desk = group_desk(log_flush_interval_messages=1)
    desk.flushes_by_hand = True
    member = GroupMember(desk)
    find_coordinator(member.peer)
    desk.node.flush(desk.clock.now_ms())

    def refuse_flush(operation: str, path: str) -> None:
        if operation == "flush" and "__consumer_offsets" in path and path.endswith(".log"):
            raise StorageError(5, "input/output error", path)

    member.peer.send(member.commit_request(offset=1), 9)
    desk.disk.fault = refuse_flush
    desk.node.flush(desk.clock.now_ms())
    (answer,) = member.peer.answers()
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    desk.advance(60_000)
    assert coordinator(desk).load_error("g") is ErrorCode.NOT_COORDINATOR
    desk.disk.fault = None
    desk.advance(60_000)
    assert coordinator(desk).load_error("g") is ErrorCode.NONE
    desk.flushes_by_hand = False
    assert committed(desk.connect()) == -1
    assert GroupMember(desk).commit(offset=2) == ErrorCode.NONE
    desk.disk.lose_unflushed()
    assert committed(desk.restart(clean=False).connect()) == 2


# -- group events


def test_rebalance_events_have_their_causes() -> None:
    desk = group_desk()
    leader, follower = stable_group(desk)
    follower.leave()
    kinds = [(event["event"], event["cause"]["kind"]) for event in events(desk)]
    assert kinds == [
        ("group_created", "group_created"),
        ("member_id_issued", "member_id_issued"),
        ("member_joined", "member_joined"),
        ("round_opened", "member_joined"),
        ("member_id_issued", "member_id_issued"),
        ("member_joined", "member_joined"),
        ("generation_formed", "initial_delay_over"),
        ("assignment_stored", "leader_synced"),
        ("member_left", "member_left"),
        ("round_opened", "member_left"),
    ]
    last = events(desk)[-1]
    assert last["members"] == [leader.member_id]
    assert last["cause"]["member"] == follower.member_id
    assert last["cause"]["detail"] == "done"


def test_assignment_event_has_the_partitions_of_each_member() -> None:
    desk = group_desk()
    members = stable_group(desk)
    (stored,) = [event for event in events(desk) if event["event"] == "assignment_stored"]
    expected = {member.member_id: {"orders": [index]} for index, member in enumerate(members)}
    assert stored["assignments"] == expected
    assert (stored["generation"], stored["leader"]) == (1, members[0].member_id)


def test_eviction_event_has_the_time_without_heartbeats_that_caused_it() -> None:
    desk = group_desk()
    (member,) = stable_group(desk, 1)
    desk.advance(10_000)
    (evicted,) = [event for event in events(desk) if event["event"] == "member_evicted"]
    assert evicted["member"] == member.member_id
    assert (evicted["cause"]["kind"], evicted["cause"]["detail"]) == ("session_timeout", "no heartbeat for 10.0 s")
    assert events(desk)[-1]["event"] == "group_emptied"


def test_heartbeats_and_commits_write_no_event() -> None:
    desk = group_desk()
    (member,) = stable_group(desk, 1)
    before = len(events(desk))
    member.heartbeat()
    member.commit()
    assert len(events(desk)) == before


def test_group_continues_when_its_events_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    desk = group_desk()

    def refuse_events(operation: str, path: str) -> None:
        if "__kohort_group_events" in path:
            raise StorageError(5, f"cannot {operation}", path)

    desk.disk.fault = refuse_events
    (member,) = stable_group(desk, 1)
    with caplog.at_level(logging.WARNING, "kohort.node"):
        desk.advance(LINGER_MS)
    assert "the disk fails: /memory/__kohort_group_events" in caplog.text
    assert member.heartbeat() == 0


def test_log_has_the_group_created_and_each_generation_formed_and_synced() -> None:
    desk = group_desk()
    stable_group(desk)
    assert [record.key for record in group_records(desk)] == [b"\x00\x02\x00\x01g"] * 3


def test_topic_of_events_is_bounded_by_bytes() -> None:
    desk = group_desk(kohort_group_events_retention_bytes=8 << 20)
    stable_group(desk, 1)
    events(desk)
    topic = desk.node.topics.find("__kohort_group_events")
    assert (topic.config.retention_bytes, topic.config.segment_bytes) == (8 << 20, 1 << 20)
