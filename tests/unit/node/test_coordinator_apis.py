"""The group APIs in their versions: what each version can say, and what it must not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node.desk import Desk, Peer
from tests.unit.node.group_desk import GroupMember, committed, find_coordinator, group_desk, stable_group

from kohort.model.errors import ErrorCode
from kohort.wire.apis import VERSIONS, Api
from kohort.wire.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)


def versions(api: Api, lowest: int = 0) -> list[int]:
    served = VERSIONS[api]
    return list(range(max(served.lowest, lowest), served.highest + 1))


@pytest.fixture
def desk() -> Desk:
    return group_desk()


@pytest.fixture
def peer(desk: Desk) -> Peer:
    peer = desk.connect()
    find_coordinator(peer)
    return peer


# -- FindCoordinator


@pytest.mark.parametrize("version", versions(Api.FIND_COORDINATOR))
def test_every_version_finds_this_node(desk: Desk, version: int) -> None:
    desk.node.context.listener.advertised = ("here", 1234)
    answer = desk.connect().call(FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"]), version)
    found = answer.coordinators if version >= 4 else [answer]
    assert [(each.error_code, each.node_id, each.host, each.port) for each in found] == [(0, 1, "here", 1234)] * len(
        found
    )
    assert version < 4 or [each.key for each in found] == ["g", "h"]


@pytest.mark.parametrize("version", [1, 6])
@pytest.mark.parametrize(("key_type", "error"), [(1, ErrorCode.NONE), (2, ErrorCode.INVALID_REQUEST)])
def test_transactions_are_coordinated_here_and_share_groups_are_not(
    peer: Peer, version: int, key_type: int, error: ErrorCode
) -> None:
    answer = peer.call(FindCoordinatorRequest(key="t", key_type=key_type, coordinator_keys=["t"]), version)
    found = answer.coordinators[0] if version >= 4 else answer
    assert found.error_code == error
    assert not error or "share" in found.error_message


# -- JoinGroup and SyncGroup


@pytest.mark.parametrize("version", versions(Api.JOIN_GROUP))
def test_every_version_can_join(desk: Desk, version: int) -> None:
    member = GroupMember(desk)
    member.peer.send(member.join_request(group_instance_id=None), version)
    if version >= 4:
        (first,) = member.peer.answers()
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert first.member_id.startswith("tester-")
        member.member_id = first.member_id
        member.peer.send(member.join_request(), version)
    desk.advance(0)
    (answer,) = member.peer.answers()
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id == answer.members[0].member_id
    assert answer.protocol_type == ("consumer" if version >= 7 else None)


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None), (9, None)])
def test_error_has_the_empty_protocol_name_of_its_version(desk: Desk, version: int, name: str | None) -> None:
    member = GroupMember(desk)
    answer = member.peer.call(member.join_request(protocol_type=""), version)
    assert (answer.error_code, answer.protocol_name) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, name)


def test_first_version_has_one_timeout_for_both(desk: Desk) -> None:
    member = GroupMember(desk)
    member.peer.send(member.join_request(), 0)
    (group_member,) = desk.node.coordinator.runtime.hosted("g").shard.groups["g"].members.values()  # type: ignore[union-attr]
    assert group_member.rebalance_timeout_ms == group_member.session_timeout_ms == 10_000


def test_member_ids_begin_with_the_instance_and_end_in_a_uuid(desk: Desk) -> None:
    member = GroupMember(desk, instance_id="worker")
    member.enter()
    desk.advance(0)
    prefix, _, text = member.joined().member_id.partition("-")
    assert prefix == "worker"
    assert [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12]
    assert text[14] == "4"


def test_returning_static_leader_gets_skip_assignment_only_from_version_9(desk: Desk) -> None:
    (member,) = stable_group(desk, 1, instance_id="i")
    old_id, member.member_id = member.member_id, ""
    modern = member.peer.call(member.join_request(), 9)
    assert (modern.skip_assignment, modern.leader) == (True, modern.member_id)
    old = member.peer.call(member.join_request(), 8)
    assert (old.skip_assignment, old.leader) == (False, modern.member_id)
    assert old_id not in (modern.member_id, old.member_id)


@pytest.mark.parametrize("version", versions(Api.SYNC_GROUP))
def test_every_version_can_sync(desk: Desk, version: int) -> None:
    (member,) = stable_group(desk, 1)
    answer = member.peer.call(member.sync_request(), version)
    assert (answer.error_code, bool(answer.assignment)) == (0, True)
    assert answer.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("version", versions(Api.SYNC_GROUP))
def test_failure_of_a_leader_is_returned_from_version_4_and_before_as_rebalance_in_progress(
    desk: Desk, version: int
) -> None:
    members = stable_group(desk, 2)
    for member in members:
        member.peer.send(member.join_request(), 9)
    leads = {member: (answer := member.joined()).leader == answer.member_id for member in reversed(members)}
    leader, follower = sorted(members, key=lambda member: not leads[member])
    follower.peer.send(follower.sync_request(), version)
    failed = leader.sync_request()
    failed.assignment_error = "no idea"
    leader.peer.send(failed, 5)
    (answer,) = follower.peer.answers()
    if version < 4:
        assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    else:
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert answer.error_message.endswith("failed: no idea")


@pytest.mark.parametrize("left_out", ["protocol_type", "protocol_name"])
def test_newest_sync_without_its_protocol_is_refused_before_other_checks(peer: Peer, left_out: str) -> None:
    request = SyncGroupRequest(group_id="", protocol_type="consumer", protocol_name="range")
    setattr(request, left_out, None)
    assert peer.call(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# -- Heartbeat and LeaveGroup


@pytest.mark.parametrize("version", versions(Api.HEARTBEAT))
def test_every_version_can_heartbeat(desk: Desk, version: int) -> None:
    (member,) = stable_group(desk, 1)
    assert member.heartbeat(version) == 0
    member.generation = 9
    assert member.heartbeat(version) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", versions(Api.LEAVE_GROUP))
def test_every_version_can_leave(desk: Desk, version: int) -> None:
    (member,) = stable_group(desk, 1)
    entry = LeaveGroupRequest.Member(member_id=member.member_id, reason="r")
    request = LeaveGroupRequest(group_id="g", member_id=member.member_id, members=[entry])
    first, again = member.peer.call(request, version), member.peer.call(request, version)
    if version < 3:
        assert (first.error_code, again.error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)
    else:
        assert (first.error_code, first.members[0].error_code) == (0, 0)
        assert (again.error_code, again.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (JoinGroupRequest(session_timeout_ms=10_000), 9),
        (HeartbeatRequest(), 4),
        (LeaveGroupRequest(), 5),
        (SyncGroupRequest(protocol_type="consumer", protocol_name="range"), 5),
    ],
)
def test_group_without_a_name_is_no_group(peer: Peer, request_: Any, version: int) -> None:
    assert peer.call(request_, version).error_code == ErrorCode.INVALID_GROUP_ID


# -- OffsetCommit and OffsetFetch


def commit_of(desk: Desk, name: str = "orders", partition: int = 1, **fields: Any) -> OffsetCommitRequest:
    topic = desk.node.topics.get(name)
    wanted = OffsetCommitRequest.Topic.Partition(
        partition_index=partition, committed_offset=12, committed_leader_epoch=3, committed_metadata="m"
    )
    named = OffsetCommitRequest.Topic(name=name, topic_id=topic.topic_id if topic else b"?" * 16, partitions=[wanted])
    return OffsetCommitRequest(**{"group_id": "g", "topics": [named], **fields})


def fetch_of(desk: Desk, *partitions: int, name: str = "orders") -> OffsetFetchRequest:
    topic = desk.node.topics.get(name)
    topic_id = topic.topic_id if topic else b"?" * 16
    return OffsetFetchRequest(
        group_id="g",
        topics=[OffsetFetchRequest.Topic(name=name, partition_indexes=list(partitions))],
        groups=[
            OffsetFetchRequest.Group(
                group_id="g",
                topics=[
                    OffsetFetchRequest.Group.Topic(name=name, topic_id=topic_id, partition_indexes=list(partitions))
                ],
            )
        ],
    )


@pytest.mark.parametrize("version", versions(Api.OFFSET_COMMIT))
def test_every_version_can_commit(desk: Desk, peer: Peer, version: int) -> None:
    (topic,) = peer.call(commit_of(desk), version).topics
    assert (topic.name or topic.topic_id, topic.partitions[0].partition_index, topic.partitions[0].error_code) == (
        ("orders" if version < 10 else desk.node.topics.get("orders").topic_id),  # type: ignore[union-attr]
        1,
        0,
    )
    assert committed(peer, 1) == 12


@pytest.mark.parametrize("version", versions(Api.OFFSET_FETCH))
def test_every_version_can_fetch(desk: Desk, peer: Peer, version: int) -> None:
    peer.call(commit_of(desk), 9)
    answer = peer.call(fetch_of(desk, 1, 2), version)
    source = answer.groups[0] if version >= 8 else answer
    (topic,) = source.topics
    assert source.error_code == 0
    assert [(each.partition_index, each.committed_offset, each.metadata) for each in topic.partitions] == [
        (1, 12, "m"),
        (2, -1, ""),
    ]
    assert topic.partitions[0].committed_leader_epoch == (3 if version >= 5 else -1)


@pytest.mark.parametrize("version", versions(Api.OFFSET_FETCH, lowest=2))
def test_no_topics_at_all_asks_for_every_offset(desk: Desk, peer: Peer, version: int) -> None:
    desk.create("other")
    peer.call(commit_of(desk), 9)
    peer.call(commit_of(desk, "other", 0), 9)
    request = OffsetFetchRequest(
        group_id="g", topics=None, groups=[OffsetFetchRequest.Group(group_id="g", topics=None)]
    )
    answer = peer.call(request, version)
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    if version < 10:
        assert [topic.name for topic in topics] == ["orders", "other"]
    else:
        assert [desk.node.topics.by_id(topic.topic_id).name for topic in topics] == ["orders", "other"]  # type: ignore[union-attr]


def test_many_groups_are_fetched_at_once(desk: Desk, peer: Peer) -> None:
    peer.call(commit_of(desk), 9)
    groups = [OffsetFetchRequest.Group(group_id=group_id, topics=None) for group_id in ("g", "missing")]
    answer = peer.call(OffsetFetchRequest(groups=groups, require_stable=True), 9)
    assert [(group.group_id, group.error_code, len(group.topics)) for group in answer.groups] == [
        ("g", 0, 1),
        ("missing", 0, 0),
    ]


@pytest.mark.parametrize("version", versions(Api.OFFSET_FETCH))
def test_fetch_of_a_missing_group_finds_nothing(desk: Desk, peer: Peer, version: int) -> None:
    answer = peer.call(fetch_of(desk, 0, 1), version)
    source = answer.groups[0] if version >= 8 else answer
    assert source.error_code == 0
    assert [(each.committed_offset, each.metadata, each.error_code) for each in source.topics[0].partitions] == [
        (-1, "", 0)
    ] * 2


@pytest.mark.parametrize("version", [9, 10])
def test_commit_to_what_does_not_exist_is_refused_and_the_rest_is_stored(desk: Desk, peer: Peer, version: int) -> None:
    request = commit_of(desk)
    request.topics[0].partitions.append(OffsetCommitRequest.Topic.Partition(partition_index=3, committed_offset=1))
    request.topics += commit_of(desk, name="missing").topics
    known, missing = peer.call(request, version).topics
    assert [each.error_code for each in known.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    expected = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 10 else ErrorCode.UNKNOWN_TOPIC_ID
    assert [each.error_code for each in missing.partitions] == [expected]
    assert committed(peer, 1) == 12


def test_fetch_by_an_unknown_topic_id_is_an_error(desk: Desk, peer: Peer) -> None:
    answer = peer.call(fetch_of(desk, 0, name="missing"), 10)
    assert answer.groups[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_generation_of_a_missing_group_is_refused_with_the_error_of_the_version(
    desk: Desk, peer: Peer, version: int, error: ErrorCode
) -> None:
    request = commit_of(desk, generation_id_or_member_epoch=1, member_id="m")
    assert peer.call(request, version).topics[0].partitions[0].error_code == error


def test_metadata_that_is_too_long_is_refused_for_its_partition(desk: Desk, peer: Peer) -> None:
    request = commit_of(desk)
    request.topics[0].partitions[0].committed_metadata = "x" * 4097
    assert peer.call(request, 9).topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE


@pytest.mark.parametrize("version", [2, 4])
def test_old_commit_can_name_its_retention(desk: Desk, peer: Peer, version: int) -> None:
    peer.call(commit_of(desk, retention_time_ms=600_000), version)
    desk.advance(599_000)
    assert committed(peer, 1) == 12
    desk.advance(1_000)
    assert committed(peer, 1) == -1


def test_null_metadata_reads_as_none(desk: Desk, peer: Peer) -> None:
    request = commit_of(desk)
    request.topics[0].partitions[0].committed_metadata = None
    peer.call(request, 9)
    answer = peer.call(fetch_of(desk, 1), 9)
    assert answer.groups[0].topics[0].partitions[0].metadata == ""


def test_pipelined_commits_are_answered_in_order(desk: Desk, peer: Peer) -> None:
    frames = [peer.frame(commit_of(desk, partition=index % 3), 9)[0] for index in range(20)]
    peer.feed(b"".join(frames))
    answers = [answer.topics[0].partitions[0].partition_index for answer in peer.answers()]
    assert answers == [index % 3 for index in range(20)]


# -- OffsetDelete


def test_offsets_are_deleted_unless_a_member_reads_the_topic(desk: Desk) -> None:
    desk.create("old")
    (member,) = stable_group(desk, 1)
    member.commit()
    member.peer.call(commit_of(desk, "old", 0, generation_id_or_member_epoch=1, member_id=member.member_id), 9)
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequest.Topic(name=name, partitions=[OffsetDeleteRequest.Topic.Partition(partition_index=0)])
            for name in ("orders", "old", "missing")
        ],
    )
    answer = member.peer.call(request, 0)
    assert (answer.error_code, [topic.partitions[0].error_code for topic in answer.topics]) == (
        0,
        [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    )
    assert (committed(member.peer), committed(member.peer, topic="old")) == (7, -1)


def test_offsets_of_a_missing_group_are_not_deleted(peer: Peer) -> None:
    assert peer.call(OffsetDeleteRequest(group_id="missing"), 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_the_empty_group_id_are_not_deleted(peer: Peer) -> None:
    assert peer.call(OffsetDeleteRequest(group_id=""), 0).error_code == ErrorCode.INVALID_GROUP_ID


def test_topics_whose_id_is_unknown_come_last(desk: Desk, peer: Peer) -> None:
    find_coordinator(peer)
    orders = desk.node.topics.get("orders")
    assert orders is not None
    ids = [b"?" * 16, orders.topic_id, b"!" * 16]
    topics = [OffsetFetchRequest.Group.Topic(topic_id=each, partition_indexes=[0]) for each in ids]
    (group,) = peer.call(OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=topics)]), 10).groups
    assert [topic.topic_id for topic in group.topics] == [orders.topic_id, b"?" * 16, b"!" * 16]


# -- DescribeGroups, ListGroups, DeleteGroups


@pytest.mark.parametrize("version", versions(Api.DESCRIBE_GROUPS))
def test_every_version_describes_a_stable_group(desk: Desk, version: int) -> None:
    (member,) = stable_group(desk, 1)
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    (group,) = member.peer.call(request, version).groups
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (described,) = group.members
    assert (described.member_id, described.client_id, described.client_host) == (
        member.member_id,
        "tester",
        "/192.0.2.1",
    )
    assert described.member_assignment
    assert group.authorized_operations == (3400 if version >= 3 else -(2**31))


@pytest.mark.parametrize("version", versions(Api.DESCRIBE_GROUPS))
def test_missing_group_is_dead_and_since_v6_an_error(peer: Peer, version: int) -> None:
    (group,) = peer.call(DescribeGroupsRequest(groups=["missing"]), version).groups
    assert group.group_state == "Dead"
    if version < 6:
        assert group.error_code == 0
    else:
        assert (group.error_code, group.error_message) == (69, "Group missing not found.")


@pytest.mark.parametrize("version", versions(Api.LIST_GROUPS))
def test_every_version_lists_groups(desk: Desk, version: int) -> None:
    (member,) = stable_group(desk, 1)
    (group,) = member.peer.call(ListGroupsRequest(), version).groups
    assert (group.group_id, group.protocol_type) == ("g", "consumer")
    assert (group.group_state, group.group_type) == (
        "Stable" if version >= 4 else "",
        "classic" if version >= 5 else "",
    )


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (["stable"], [], 1),
        (["STABLE", "Empty"], ["Classic"], 1),
        (["Empty"], [], 0),
        ([], ["consumer"], 0),
        ([], ["nonsense"], 0),
    ],
)
def test_list_is_filtered_in_any_letter_case(desk: Desk, states: list[str], types: list[str], found: int) -> None:
    (member,) = stable_group(desk, 1)
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    assert len(member.peer.call(request, 5).groups) == found


@pytest.mark.parametrize("version", versions(Api.DELETE_GROUPS))
def test_every_version_deletes_only_what_is_empty(desk: Desk, version: int) -> None:
    (member,) = stable_group(desk, 1)
    member.peer.call(commit_of(desk, group_id="simple"), 9)
    answer = member.peer.call(DeleteGroupsRequest(groups_names=["g", "simple", "missing"]), version)
    assert [(each.group_id, each.error_code) for each in answer.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("simple", 0),
        ("missing", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    has_message = [each.error_message is not None for each in answer.results]
    assert has_message == ([True, False, True] if version >= 3 else [False] * 3)


def test_nothing_to_delete_is_answered(peer: Peer) -> None:
    assert peer.call(DeleteGroupsRequest(), 2).results == []
