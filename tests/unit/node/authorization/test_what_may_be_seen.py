"""Lists and descriptions under an authorizer leave out what their reader may not see."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node.authorization.api_cases import (
    ALTER,
    CLUSTER,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    TOPIC,
    TOPIC_FAILED,
    TXN,
    Right,
    allowing,
)
from tests.unit.node.authorization.test_api_checks import client, desk
from tests.unit.node.desk import Desk, Peer, create

from kohort.model.acl import AclOperation, Principal
from kohort.model.errors import ErrorCode
from kohort.node.apis import k11_12_13_14_classic_members
from kohort.node.apis.routes import Routes
from kohort.node.authorization.access import java_address
from kohort.wire import messages as m
from kohort.wire.apis import Api


def grant(broker: Desk, *rights: tuple[AclOperation, Any, str]) -> None:
    broker.node.state.change_acls([allowing((operation, kind), name=name) for operation, kind, name in rights], [], 0)


def metadata(peer: Peer, *names: str, version: int = 9, **fields: Any) -> m.MetadataResponse:
    topics = [m.MetadataRequest.Topic(name=name) for name in names] or None
    found: m.MetadataResponse = peer.call(m.MetadataRequest(topics=topics, **fields), version)
    return found


def commit(broker: Desk, group: str, topic: str) -> None:
    partition = m.OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=3)
    asked = m.OffsetCommitRequest.Topic(name=topic, partitions=[partition])
    client(broker, "root").call(m.OffsetCommitRequest(group_id=group, topics=[asked]), 8)


@pytest.mark.parametrize("version", [0, 1, 9, 13])
def test_metadata_of_all_topics_leaves_out_those_that_may_not_be_described(version: int) -> None:
    broker = desk()
    broker.create("payments")
    grant(broker, (DESCRIBE, TOPIC, "payments"))
    asked = [] if version == 0 else None
    response = client(broker).call(m.MetadataRequest(topics=asked), version)
    assert [topic.name for topic in response.topics] == ["payments"]


def test_unknown_topic_and_one_that_may_not_be_described_are_answered_alike() -> None:
    broker = desk(auto_create_topics_enable="true")
    topics = metadata(client(broker), "orders", "missing").topics
    assert {(topic.name, topic.error_code, topic.topic_id) for topic in topics} == {
        ("orders", TOPIC_FAILED, bytes(16)),
        ("missing", TOPIC_FAILED, bytes(16)),
    }


def test_topic_that_is_asked_for_by_id_does_not_reveal_its_name() -> None:
    broker = desk()
    topic_id = broker.create("payments")
    asked = [m.MetadataRequest.Topic(name=None, topic_id=topic_id)]
    (found,) = client(broker).call(m.MetadataRequest(topics=asked), 12).topics
    assert (found.error_code, found.name, found.topic_id) == (TOPIC_FAILED, None, topic_id)


@pytest.mark.parametrize(
    ("rights", "is_created"),
    [
        ([(DESCRIBE, TOPIC)], False),
        ([(DESCRIBE, TOPIC), (CREATE, TOPIC)], True),
        ([(DESCRIBE, TOPIC), (CREATE, CLUSTER)], True),
        ([(CREATE, CLUSTER)], False),
    ],
)
def test_metadata_creates_a_topic_with_create_on_it_or_on_the_cluster(rights: list[Right], is_created: bool) -> None:
    broker = desk()
    broker.node.state.change_acls(
        [allowing(right, name="new" if right[1] is TOPIC else None) for right in rights], [], 0
    )
    (found,) = metadata(client(broker), "new").topics
    assert found.error_code == (ErrorCode.NONE if is_created else TOPIC_FAILED)
    assert (broker.node.topics.get("new") is not None) is is_created


def test_describe_topic_partitions_of_all_leaves_out_and_of_names_refuses() -> None:
    broker = desk()
    broker.create("payments")
    grant(broker, (READ, TOPIC, "payments"))
    asked = m.DescribeTopicPartitionsRequest
    assert [each.name for each in client(broker).call(asked(), 0).topics] == ["payments"]
    named = client(broker).call(asked(topics=[asked.Topic(name="orders"), asked.Topic(name="payments")]), 0)
    assert [(each.name, each.error_code) for each in named.topics] == [("orders", TOPIC_FAILED), ("payments", 0)]


def test_list_groups_shows_all_to_who_may_describe_the_cluster_else_those_that_may_be_described() -> None:
    broker = desk()
    commit(broker, "other", "orders")
    peer = client(broker)
    assert peer.call(m.ListGroupsRequest(), 5).groups == []
    grant(broker, (READ, GROUP, "other"))
    assert [each.group_id for each in peer.call(m.ListGroupsRequest(), 5).groups] == ["other"]
    grant(broker, (DESCRIBE, CLUSTER, "kafka-cluster"))
    assert {each.group_id for each in peer.call(m.ListGroupsRequest(), 5).groups} == {"billing", "other"}


def test_offsets_of_all_topics_leave_out_those_that_may_not_be_described() -> None:
    broker = desk()
    broker.create("payments")
    commit(broker, "billing", "payments")
    grant(broker, (DESCRIBE, GROUP, "billing"), (DESCRIBE, TOPIC, "payments"))
    asked = m.OffsetFetchRequest(groups=[m.OffsetFetchRequest.Group(group_id="billing", topics=None)])
    (group,) = client(broker).call(asked, 9).groups
    assert [topic.name for topic in group.topics] == ["payments"]


def test_list_transactions_leaves_out_ids_that_may_not_be_described() -> None:
    broker = desk()
    root = client(broker, "root")
    for each in ("shop", "other"):
        root.call(m.InitProducerIdRequest(transactional_id=each, transaction_timeout_ms=1000), 4)
    grant(broker, (DESCRIBE, TXN, "shop"))
    found = client(broker).call(m.ListTransactionsRequest(), 1).transaction_states
    assert [each.transactional_id for each in found] == ["shop"]


def test_created_topic_shows_its_settings_to_who_may_describe_them() -> None:
    broker = desk()
    grant(broker, (CREATE, CLUSTER, "kafka-cluster"), (DESCRIBE_CONFIGS, TOPIC, "open"))
    for name, shows in (("open", True), ("closed", False)):
        (topic,) = client(broker).call(create(name, 2), 7).topics
        assert topic.error_code == 0
        assert topic.topic_config_error_code == (0 if shows else TOPIC_FAILED)
        assert (topic.num_partitions, topic.replication_factor) == ((2, 1) if shows else (-1, -1))
        assert bool(topic.configs) is shows


def test_delete_topics_by_id_names_the_topic_to_who_may_describe_it() -> None:
    broker = desk()
    secret, seen = broker.create("secret"), broker.create("seen")
    grant(broker, (DESCRIBE, TOPIC, "seen"))
    asked = m.DeleteTopicsRequest.Topic
    request = m.DeleteTopicsRequest(topics=[asked(name=None, topic_id=each) for each in (secret, seen)])
    answers = client(broker).call(request, 6).responses
    assert [(each.name, each.error_code) for each in answers] == [(None, TOPIC_FAILED), ("seen", TOPIC_FAILED)]


def test_delete_on_the_cluster_deletes_any_topic() -> None:
    broker = desk()
    grant(broker, (DELETE, CLUSTER, "kafka-cluster"))
    request = m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest.Topic(name="orders")])
    assert client(broker).call(request, 6).responses[0].error_code == 0


def test_authorized_operations_are_those_of_the_sender() -> None:
    broker = desk()
    grant(broker, (READ, TOPIC, "orders"), (READ, GROUP, "billing"), (ALTER, CLUSTER, "kafka-cluster"))
    peer = client(broker)
    (topic,) = metadata(peer, "orders", include_topic_authorized_operations=True).topics
    assert topic.topic_authorized_operations == 1 << READ | 1 << DESCRIBE
    request = m.DescribeGroupsRequest(groups=["billing"], include_authorized_operations=True)
    assert peer.call(request, 5).groups[0].authorized_operations == 1 << READ | 1 << DESCRIBE
    cluster = peer.call(m.DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    assert cluster.cluster_authorized_operations == 1 << ALTER | 1 << DESCRIBE
    of_bob = client(broker, "bob").call(m.DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    assert of_bob.cluster_authorized_operations == 0


def test_revoked_right_fails_the_next_request() -> None:
    broker = desk()
    grant(broker, (READ, GROUP, "billing"))
    peer = client(broker)
    heartbeat = m.HeartbeatRequest(group_id="billing", generation_id=1, member_id="m")
    assert peer.call(heartbeat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    broker.node.state.change_acls([], [allowing((READ, GROUP))], 0)
    assert peer.call(heartbeat, 4).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_connection_that_logs_in_as_another_user_has_that_users_rights() -> None:
    broker = desk()
    grant(broker, (READ, GROUP, "billing"))
    peer = client(broker)
    heartbeat = m.HeartbeatRequest(group_id="billing", generation_id=1, member_id="m")
    assert peer.call(heartbeat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    peer.connection.principal = Principal("User", "bob")
    assert peer.call(heartbeat, 4).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_right_for_one_group_does_not_serve_for_another_on_the_same_connection() -> None:
    broker = desk()
    grant(broker, (READ, GROUP, "billing"))
    peer = client(broker)
    for group, error in (("billing", ErrorCode.UNKNOWN_MEMBER_ID), ("other", ErrorCode.GROUP_AUTHORIZATION_FAILED)):
        heartbeat = m.HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
        assert peer.call(heartbeat, 4).error_code == error


def test_without_an_authorizer_a_heartbeat_runs_the_handler_itself() -> None:
    for is_guarded in (False, True):
        route = Routes({}, is_guarded=is_guarded).get(Api.HEARTBEAT, 4)
        assert route is not None
        assert (route.handle is k11_12_13_14_classic_members.heartbeat) is not is_guarded


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a:1", "2001:db8:0:0:0:0:a:1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("a socket", "a socket"),
    ],
)
def test_address_is_compared_as_java_writes_it(host: str, written: str) -> None:
    assert java_address(host) == written
