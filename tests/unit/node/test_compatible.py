"""A broker that is to behave as Apache Kafka 4.3: what clients could distinguish it by is off."""

from __future__ import annotations

import pytest
from tests.unit.node.consumer_desk import NativeMember
from tests.unit.node.desk import Desk
from tests.unit.node.group_desk import GroupMember, group_desk, stable_group

from kohort.model.errors import ErrorCode
from kohort.wire.apis import Api
from kohort.wire.messages import ApiVersionsRequest, ConsumerGroupDescribeRequest, DeleteGroupsRequest

INTERVAL_MS = 3_000


def compatible_desk(**settings: object) -> Desk:
    """Return a compatible node with topic `orders` of three partitions."""
    desk = Desk(kohort_compatible="kafka-4.3", group_initial_rebalance_delay_ms=0, **settings)
    desk.create("orders", 3)
    return desk


def stable(desk: Desk, count: int = 2) -> list[GroupMember]:
    return stable_group(desk, count)


def test_only_versions_and_features_of_that_kafka_are_offered() -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = compatible_desk().connect().call(request, 4)
    newest = {key.api_key: key.max_version for key in answer.api_keys}
    assert (newest[Api.API_VERSIONS], newest[Api.DELETE_GROUPS], newest[Api.STREAMS_GROUP_HEARTBEAT]) == (4, 2, 0)
    assert Api.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE not in newest
    names = [feature.name for feature in answer.supported_features]
    assert names == ["transaction.version", "group.version", "streams.version"]


def test_request_of_a_newer_version_is_answered_as_by_that_kafka() -> None:
    peer = compatible_desk().connect()
    message = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    frame, number = peer.frame(message, 5)
    peer._sent[number] = peer._sent[number][0], 0
    peer.feed(frame)
    (answer,) = peer.answers()
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.max_version) for key in answer.api_keys] == [(Api.API_VERSIONS, 4)]
    peer.send(DeleteGroupsRequest(groups_names=["g"]), 3)
    assert peer.closed is not None


def test_heartbeats_are_answered_at_once_with_the_configured_interval() -> None:
    desk = compatible_desk()
    (member,) = stable(desk, 1)
    native = NativeMember(desk, "n", "native")
    native.join()
    for _ in range(3):
        desk.advance(INTERVAL_MS)
        assert member.heartbeat() == 0
        assert native.beat().heartbeat_interval_ms == 5_000


def test_first_round_runs_its_whole_delay() -> None:
    desk = Desk(kohort_compatible="kafka-4.3")
    desk.create("orders", 3)
    member = GroupMember(desk)
    member.enter()
    desk.advance(2_999)
    assert not member.peer.answers()
    desk.advance(1)
    member.joined()


@pytest.mark.parametrize(("reason", "is_round"), [("blind", True), ("topic_metadata_change", True), ("", True)])
def test_leader_that_joins_again_starts_a_round_whatever_its_reason(reason: str, is_round: bool) -> None:
    desk = compatible_desk()
    leader, _ = stable(desk)
    leader.peer.send(leader.join_request(reason=reason), 9)
    assert bool(leader.peer.answers()) is not is_round


def test_reason_blind_retains_the_generation_by_default() -> None:
    leader, _ = stable_group(group_desk())
    leader.peer.send(leader.join_request(reason="blind"), 9)
    (answer,) = leader.peer.answers()
    assert answer.generation_id == leader.generation


def test_no_topic_and_no_field_of_ours_is_seen() -> None:
    desk = compatible_desk()
    native = NativeMember(desk, "n")
    native.join()
    classic = GroupMember(desk)
    classic.enter()
    desk.advance(1_000)
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    (group,) = desk.connect().call(request, 1).groups
    assert [member.phase for member in group.members] == [None, None]
    assert {topic.name for topic in desk.node.topics} == {"orders", "__consumer_offsets"}


def test_expression_is_resolved_after_the_response_to_the_heartbeat_that_contains_it() -> None:
    desk = compatible_desk()
    native = NativeMember(desk, "n", subscribed_topic_names=[], subscribed_topic_regex="ord.*")
    joined = native.join()
    assert (joined.member_epoch, joined.assignment.topic_partitions) == (1, [])
    desk.advance(1_000)
    assigned = native.ack()
    assert assigned.member_epoch == 2
    assert [topic.partitions for topic in assigned.assignment.topic_partitions] == [[0, 1, 2]]


def test_targets_are_an_assignment_interval_apart() -> None:
    desk = compatible_desk()
    native = NativeMember(desk, "n")
    native.join()
    other = NativeMember(desk, "m")
    assert other.join().member_epoch == native.epoch
    (group,) = desk.connect().call(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (group.group_epoch, group.assignment_epoch) == (native.epoch + 1, native.epoch)
    desk.advance(1_000)
    (group,) = desk.connect().call(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert group.assignment_epoch == group.group_epoch
