"""Commits that come together share one append, and differ from single ones in nothing else."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.unit.node.desk import Desk
from tests.unit.node.group_desk import GroupMember, committed, group_desk, stable_group

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode
from kohort.node.groups.runtime import GATHERED
from kohort.wire.messages import (
    DeleteGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from kohort.wire.record_batches import BatchHeader, iter_batches


def batches(desk: Desk, group_id: str = "g") -> list[BatchHeader]:
    """Return what the group's offsets partition holds."""
    topic = desk.node.topics.get("__consumer_offsets")
    assert topic is not None
    log = topic.partitions[desk.node.coordinator.partition_of(group_id)].log
    views = log.read(0, 1 << 24) if log.log_end_offset else []
    return [header for view in views for header, _ in iter_batches(view)]


def flush(desk: Desk) -> None:
    desk.node.flush(desk.clock.now_ms())


def errors(member: GroupMember) -> list[int]:
    """Take the answers of commits, one error for each."""
    return [answer.topics[0].partitions[0].error_code for answer in member.peer.answers()]


def crowd(**fields: Any) -> tuple[Desk, list[GroupMember]]:
    """Return a stable group of two, whose batches of input the test ends."""
    desk = group_desk(**fields)
    members = stable_group(desk, 2)
    desk.flushes_by_hand = True
    return desk, members


def test_commits_of_one_batch_of_input_are_one_batch_of_records() -> None:
    desk, (one, other) = crowd()
    before = len(batches(desk))
    one.peer.send(one.commit_request(0, 5), 9)
    other.peer.send(other.commit_request(1, 6), 9)
    one.peer.send(one.commit_request(0, 7), 9)
    assert desk.node.needs_flush
    assert (one.peer.replies, other.peer.replies) == ([], [])
    flush(desk)
    assert not desk.node.needs_flush
    assert (errors(one), errors(other)) == ([0, 0], [0])
    assert [header.record_count for header in batches(desk)[before:]] == [3]
    desk.flushes_by_hand = False
    peer = desk.restart(clean=False).connect()
    assert (committed(peer, 0), committed(peer, 1)) == (7, 6)


def test_fetch_behind_a_commit_sees_it_and_is_answered_behind_it() -> None:
    _, (member, _) = crowd()
    member.peer.send(member.commit_request(0, 5), 9)
    groups = [OffsetFetchRequest.Group(group_id="g", topics=None)]
    member.peer.send(OffsetFetchRequest(groups=groups), 9)
    commit, fetched = member.peer.answers()
    assert commit.topics[0].partitions[0].error_code == 0
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 5


def test_heartbeat_behind_a_commit_is_served_at_once_and_answered_behind_it() -> None:
    desk, (member, _) = crowd()
    beat = HeartbeatRequest(group_id="g", generation_id=member.generation, member_id=member.member_id)
    commit, _ = member.peer.frame(member.commit_request(), 9)
    first, _ = member.peer.frame(beat, 4)
    second, _ = member.peer.frame(beat, 4)
    member.peer.feed(commit + first + second)
    assert not member.peer.connection.backlog
    assert member.peer.replies == []
    flush(desk)
    assert [number for number, _ in member.peer.replies] == sorted(number for number, _ in member.peer.replies)
    assert len(member.peer.answers()) == 3


def test_commit_that_came_in_time_retains_its_session() -> None:
    desk, (member, other) = crowd()
    desk.advance(9_999)
    member.peer.send(member.commit_request(), 9)
    other.peer.send(other.commit_request(), 9)
    desk.clock.advance(1)
    desk.node.tick(desk.clock.now_ms())
    assert (errors(member), errors(other)) == ([0], [0])
    assert (member.heartbeat(), other.heartbeat()) == (0, 0)


def test_first_commit_of_a_group_is_seen_by_the_decision_about_the_next() -> None:
    answers = []
    for flushes_by_hand in (True, False):
        desk = group_desk()
        desk.flushes_by_hand = flushes_by_hand
        outsider, stranger = GroupMember(desk), GroupMember(desk)
        stranger.member_id, stranger.generation = "stranger", 3
        outsider.peer.send(outsider.commit_request(), 9)
        stranger.peer.send(stranger.commit_request(), 9)
        flush(desk)
        answers.append((errors(outsider), errors(stranger)))
    assert answers == [([0], [ErrorCode.UNKNOWN_MEMBER_ID])] * 2


def test_commit_that_cannot_be_stored_costs_the_others_nothing() -> None:
    desk, (member, other) = crowd(offset_metadata_max_bytes=100_000)
    topic = desk.node.topics.get("__consumer_offsets")
    assert topic is not None
    desk.node.topics.alter(topic, [("max.message.bytes", "5000")], desk.clock.now_ms())
    request = other.commit_request(1, 6)
    request.topics[0].partitions[0].committed_metadata = "x" * 6000
    member.peer.send(member.commit_request(0, 5), 9)
    other.peer.send(request, 9)
    member.peer.send(member.commit_request(2, 7), 9)
    flush(desk)
    assert (errors(member), errors(other)) == ([0, 0], [ErrorCode.UNKNOWN_SERVER_ERROR])
    desk.flushes_by_hand = False
    peer = desk.connect()
    assert [committed(peer, partition) for partition in range(3)] == [5, -1, 7]


def test_disk_that_fails_refuses_every_commit_and_stores_none() -> None:
    desk, (member, other) = crowd()

    def refuse(operation: str, path: str) -> None:
        if operation == "append" and "__consumer_offsets" in path:
            raise StorageError(f"cannot append to {path}")

    before = len(batches(desk))
    member.peer.send(member.commit_request(0, 5), 9)
    other.peer.send(other.commit_request(1, 6), 9)
    desk.disk.fault = refuse
    flush(desk)
    assert (errors(member), errors(other)) == ([ErrorCode.NOT_COORDINATOR], [ErrorCode.NOT_COORDINATOR])
    desk.disk.fault = None
    assert len(batches(desk)) == before
    desk.flushes_by_hand = False
    peer = desk.connect()
    assert (committed(peer, 0), committed(peer, 1)) == (-1, -1)


def test_commits_that_wait_for_an_fsync_share_it() -> None:
    desk, (member, other) = crowd(log_flush_interval_messages=1)
    member.peer.send(member.commit_request(0, 5), 9)
    other.peer.send(other.commit_request(1, 6), 9)
    flush(desk)
    assert (errors(member), errors(other)) == ([0], [0])
    desk.disk.lose_unflushed()
    desk.flushes_by_hand = False
    peer = desk.restart(clean=False).connect()
    assert (committed(peer, 0), committed(peer, 1)) == (5, 6)


def test_no_more_than_a_bounded_number_is_gathered() -> None:
    desk, (member, _) = crowd()
    for offset in range(GATHERED + 1):
        member.peer.send(member.commit_request(0, offset), 9)
    assert errors(member) == [0] * GATHERED
    flush(desk)
    assert errors(member) == [0]


# -- any mixture


REQUESTS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "commit", "commit", "old", "outside", "beat", "fetch", "list", "leave", "delete"]),
        st.integers(0, 1),
        st.integers(0, 2),
        st.integers(0, 99),
    ),
    max_size=25,
)


def request_of(kind: str, member: GroupMember, partition: int, offset: int) -> tuple[Any, int]:
    match kind:
        case "commit":
            return member.commit_request(partition, offset), 9
        case "old":
            return member.commit_request(partition, offset, generation_id_or_member_epoch=0), 9
        case "outside":
            fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_id": f"simple-{partition}"}
            return OffsetCommitRequest(**(vars_of(member.commit_request(partition, offset)) | fields)), 9
        case "beat":
            generation = member.generation
            return HeartbeatRequest(group_id="g", generation_id=generation, member_id=member.member_id), 4
        case "fetch":
            return OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=None)]), 9
        case "list":
            return ListGroupsRequest(), 5
        case "leave":
            return LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id=member.member_id)]), 5
        case _:
            return DeleteGroupsRequest(groups_names=["g"]), 2


def vars_of(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__slots__}


def answers_and_state(requests: list[tuple[str, int, int, int]], *, is_gathered: bool) -> tuple[list[Any], list[Any]]:
    """Return every answer, and what a new start finds."""
    desk, members = crowd()
    desk.flushes_by_hand = is_gathered
    for kind, who, partition, offset in requests:
        member = members[who]
        member.peer.send(*request_of(kind, member, partition, offset))
    flush(desk)
    answers = [member.peer.answers() for member in members]
    desk.flushes_by_hand = False
    peer = desk.restart(clean=False).connect()
    groups = [
        OffsetFetchRequest.Group(group_id=name, topics=None) for name in ("g", "simple-0", "simple-1", "simple-2")
    ]
    return answers, [peer.call(OffsetFetchRequest(groups=groups), 9), peer.call(ListGroupsRequest(), 5)]


@settings(max_examples=examples(60), deadline=None)
@given(REQUESTS)
def test_gathering_changes_no_answer_and_no_state(requests: list[tuple[str, int, int, int]]) -> None:
    assert answers_and_state(requests, is_gathered=True) == answers_and_state(requests, is_gathered=False)
