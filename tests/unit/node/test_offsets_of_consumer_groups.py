"""Offset APIs before a consumer group (KIP-848): what a response of each version can hold."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node.desk import Desk, Peer
from tests.unit.node.group_desk import find_coordinator, group_desk

from kohort.model.errors import ErrorCode
from kohort.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)

MEMBER = "native"


@pytest.fixture
def desk() -> Desk:
    return group_desk()


@pytest.fixture
def peer(desk: Desk) -> Peer:
    """A native member that owns everything, in epoch 2."""
    peer = desk.connect()
    find_coordinator(peer)
    joined = heartbeat(peer, 0)
    assert (joined.error_code, joined.member_epoch) == (0, 2)
    return peer


def heartbeat(peer: Peer, epoch: int) -> Any:
    fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"], "topic_partitions": []}
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=MEMBER, member_epoch=epoch, **(fields if epoch == 0 else {})
    )
    return peer.call(request, 1)


def topic_id(desk: Desk) -> bytes:
    topic = desk.node.topics.get("orders")
    assert topic is not None
    return topic.topic_id


def commit(desk: Desk, peer: Peer, version: int, epoch: int, member_id: str = MEMBER) -> ErrorCode:
    asked = OffsetCommitRequest.Topic(
        name="orders",
        topic_id=topic_id(desk),
        partitions=[OffsetCommitRequest.Topic.Partition(partition_index=1, committed_offset=7)],
    )
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=epoch, member_id=member_id, topics=[asked]
    )
    (topic,) = peer.call(request, version).topics
    return ErrorCode(topic.partitions[0].error_code)


def fetch(desk: Desk, peer: Peer, version: int, member_id: str | None, epoch: int) -> tuple[ErrorCode, list[int]]:
    wanted = OffsetFetchRequest.Group.Topic(name="orders", topic_id=topic_id(desk), partition_indexes=[1, 2])
    asked = OffsetFetchRequest.Group(group_id="g", member_id=member_id, member_epoch=epoch, topics=[wanted])
    (group,) = peer.call(OffsetFetchRequest(groups=[asked]), version).groups
    offsets = [partition.committed_offset for topic in group.topics for partition in topic.partitions]
    return ErrorCode(group.error_code), offsets


@pytest.mark.parametrize("version", [2, 5, 8])
def test_commit_of_a_native_member_in_an_old_version_is_unsupported_version(
    desk: Desk, peer: Peer, version: int
) -> None:
    assert commit(desk, peer, version, 2) is ErrorCode.UNSUPPORTED_VERSION
    assert fetch(desk, peer, 9, None, -1) == (ErrorCode.NONE, [-1, -1])


@pytest.mark.parametrize("version", [9, 10])
def test_native_member_commits_and_reads_in_its_epoch(desk: Desk, peer: Peer, version: int) -> None:
    assert commit(desk, peer, version, 2) is ErrorCode.NONE
    assert fetch(desk, peer, version, MEMBER, 2) == (ErrorCode.NONE, [7, -1])
    assert fetch(desk, peer, version, None, -1) == (ErrorCode.NONE, [7, -1])


@pytest.mark.parametrize("version", [9, 10])
def test_stale_epoch_and_unknown_members_are_refused(desk: Desk, peer: Peer, version: int) -> None:
    assert commit(desk, peer, version, 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, peer, version, 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, peer, version, 2, "stranger") is ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(desk, peer, version, MEMBER, 1) == (ErrorCode.STALE_MEMBER_EPOCH, [])
    assert fetch(desk, peer, version, "stranger", 2) == (ErrorCode.UNKNOWN_MEMBER_ID, [])


def test_offset_fetch_of_a_version_without_member_epoch_is_not_checked(desk: Desk, peer: Peer) -> None:
    assert commit(desk, peer, 9, 2) is ErrorCode.NONE
    assert fetch(desk, peer, 8, "stranger", 9) == (ErrorCode.NONE, [7, -1])
    old = peer.call(
        OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequest.Topic(name="orders", partition_indexes=[1])]),
        5,
    )
    assert old.topics[0].partitions[0].committed_offset == 7


def test_offsets_of_a_subscribed_topic_stay_and_those_of_an_emptied_group_go_with_it(desk: Desk, peer: Peer) -> None:
    assert commit(desk, peer, 9, 2) is ErrorCode.NONE
    wanted = OffsetDeleteRequest.Topic(
        name="orders", partitions=[OffsetDeleteRequest.Topic.Partition(partition_index=1)]
    )
    answer = peer.call(OffsetDeleteRequest(group_id="g", topics=[wanted]), 0)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    (refused,) = peer.call(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    assert heartbeat(peer, -1).error_code == 0
    (deleted,) = peer.call(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert deleted.error_code == 0
    assert fetch(desk, peer, 9, None, -1) == (ErrorCode.NONE, [-1, -1])


def test_member_commits_and_reads_on_after_a_restart(desk: Desk, peer: Peer) -> None:
    assert commit(desk, peer, 9, 2) is ErrorCode.NONE
    desk = desk.restart()
    again = desk.connect()
    assert fetch(desk, again, 9, MEMBER, 2) == (ErrorCode.NONE, [7, -1])
    assert commit(desk, again, 9, 2) is ErrorCode.NONE
    assert commit(desk, again, 9, 1) is ErrorCode.STALE_MEMBER_EPOCH
