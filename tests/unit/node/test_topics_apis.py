"""Topics: creating, describing, growing, deleting, and what survives a restart."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.unit.node.desk import Desk, Peer, batch, create, fetch, only, produce

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID
from kohort.wire.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataResponse,
)


def metadata(peer: Peer, *names: str, version: int = 13, create_missing: bool = True) -> MetadataResponse:
    topics = [MetadataRequest.Topic(name=name) for name in names] or None
    message = MetadataRequest(topics=topics, allow_auto_topic_creation=create_missing)
    return peer.call(message, version)


def delete(name: str | None = None, topic_id: bytes = NO_TOPIC_ID) -> DeleteTopicsRequest:
    topic = DeleteTopicsRequest.Topic(name=name, topic_id=topic_id)
    return DeleteTopicsRequest(topics=[topic], topic_names=[name or ""], timeout_ms=1)


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_this_broker_as_the_leader_of_everything(version: int) -> None:
    desk = Desk(node_id=7)
    desk.node.context.listener.advertised = ("broker.example", 9192)
    desk.create("orders", 2)
    answer = metadata(desk.connect(), "orders", version=version)
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (7, "broker.example", 9192)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (0, "orders")
    assert [(p.partition_index, p.leader_id, p.isr_nodes) for p in topic.partitions] == [(0, 7, [7]), (1, 7, [7])]


def test_metadata_of_all_topics_is_asked_with_null_and_in_v0_with_an_empty_list() -> None:
    desk = Desk()
    desk.create("b")
    desk.create("a")
    peer = desk.connect()
    assert [topic.name for topic in metadata(peer).topics] == ["a", "b"]
    assert [topic.name for topic in peer.call(MetadataRequest(topics=[]), 0).topics] == ["a", "b"]
    assert peer.call(MetadataRequest(topics=[]), 1).topics == []


def test_metadata_creates_a_missing_topic_only_where_broker_and_client_allow_it() -> None:
    desk = Desk(num_partitions=3)
    peer = desk.connect()
    refused = metadata(peer, "new", create_missing=False).topics[0]
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(metadata(peer, "new").topics[0].partitions) == 3
    assert len(metadata(peer, "older", version=3, create_missing=False).topics[0].partitions) == 3
    closed = Desk(auto_create_topics_enable="false").connect()
    assert metadata(closed, "new").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_request_creates_no_more_topics_than_there_may_be(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(kohort_auto_create_topics_max=5)
    peer = desk.connect()
    with caplog.at_level(logging.WARNING):
        found = metadata(peer, *(f"new-{at}" for at in range(8))).topics
    assert [topic.error_code for topic in found] == [0] * 5 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3
    assert caplog.messages == [
        "topic new-5 is not created by the request that names it: there are 5 topics, and"
        " kohort.auto.create.topics.max is 5; create it yourself, or raise the setting"
    ]
    assert peer.call(create("by-hand"), 7).topics[0].error_code == 0


def test_one_request_creates_ten_thousand_partitions_at_most_as_in_kafka() -> None:
    desk = Desk()
    peer = desk.connect()
    topics = [create(name, count).topics[0] for name, count in (("a", 9000), ("b", 1001), ("c", 1000))]
    answer = peer.call(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
    assert [topic.error_code for topic in answer.topics] == [0, ErrorCode.POLICY_VIOLATION, 0]
    assert "Excessively large number of partitions per request" in answer.topics[1].error_message
    grown = peer.call(
        CreatePartitionsRequest(topics=[CreatePartitionsRequest.Topic(name="a", count=19_001, assignments=None)]), 2
    )
    assert grown.results[0].error_code == ErrorCode.POLICY_VIOLATION
    grown = peer.call(
        CreatePartitionsRequest(topics=[CreatePartitionsRequest.Topic(name="a", count=19_000, assignments=None)]), 2
    )
    assert grown.results[0].error_code == 0


def test_all_topics_together_have_no_more_partitions_than_they_may_but_groups_continue() -> None:
    desk = Desk(kohort_partitions_max=10)
    peer = desk.connect()
    assert peer.call(create("a", 7), 7).topics[0].error_code == 0
    refused = peer.call(create("b", 4), 7).topics[0]
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.POLICY_VIOLATION,
        "The broker has 7 partitions; kohort.partitions.max is 10.",
    )
    for count, error in ((11, ErrorCode.POLICY_VIOLATION), (10, 0)):
        grown = peer.call(
            CreatePartitionsRequest(topics=[CreatePartitionsRequest.Topic(name="a", count=count, assignments=None)]), 2
        )
        assert grown.results[0].error_code == error
    assert metadata(peer, "new").topics[0].error_code == ErrorCode.POLICY_VIOLATION
    assert desk.node.coordinator.ensure_topic().name == "__consumer_offsets"
    desk = desk.restart()
    desk.node.topics.delete(desk.node.topics.find("a"), desk.clock.now_ms())
    assert desk.connect().call(create("b", 10), 7).topics[0].error_code == ErrorCode.POLICY_VIOLATION
    desk.node.state.alter_broker([("kohort.partitions.max", "60")], desk.clock.now_ms())
    assert desk.connect().call(create("b", 10), 7).topics[0].error_code == 0


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "Übung", "x" * 250])
def test_a_topic_name_that_kafka_refuses_is_refused(name: str) -> None:
    peer = Desk().connect()
    assert metadata(peer, name).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert peer.call(create(name), 7).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_topics_are_found_by_id_from_metadata_10_on() -> None:
    desk = Desk()
    topic_id = desk.create("orders")
    peer = desk.connect()
    for version in range(10, 14):
        asked = [
            MetadataRequest.Topic(topic_id=topic_id, name=None),
            MetadataRequest.Topic(topic_id=b"?" * 16, name=None),
        ]
        found, unknown = peer.call(MetadataRequest(topics=asked), version).topics
        assert (found.name, found.topic_id) == ("orders", topic_id)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_with_its_partitions_and_settings(version: int) -> None:
    desk = Desk()
    peer = desk.connect()
    (result,) = peer.call(create("orders", 4, retention_ms="1000"), version).topics
    assert (result.error_code, result.error_message) == (0, None)
    topic = desk.node.topics.get("orders")
    assert topic is not None
    assert len(topic.partitions) == 4
    assert topic.config.get("retention.ms") == 1000
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (4, 1)
        shown = {config.name: (config.value, config.config_source) for config in result.configs or ()}
        assert shown["retention.ms"] == ("1000", 1)
        assert shown["segment.bytes"] == ("1073741824", 5)
    if version >= 7:
        assert result.topic_id == topic.topic_id


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (create("orders"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (create("or.ders"), ErrorCode.NONE),
        (create("new", 0), ErrorCode.INVALID_PARTITIONS),
        (create("new", -2), ErrorCode.INVALID_PARTITIONS),
        (create("new", replication=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (create("new", retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (create("new", retention_milliseconds="1"), ErrorCode.INVALID_CONFIG),
        (create("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (create("__consumer_offsets"), ErrorCode.INVALID_REQUEST),
        (create("new", -1, replication=-1), ErrorCode.NONE),
    ],
)
def test_creation_is_checked_as_in_kafka(message: CreateTopicsRequest, code: ErrorCode) -> None:
    desk = Desk()
    desk.create("orders")
    desk.create("a.b")
    (result,) = desk.connect().call(message, 7).topics
    assert result.error_code == code
    assert (result.error_message is None) == (code == ErrorCode.NONE)


def test_validate_only_creates_nothing() -> None:
    desk = Desk()
    message = create("orders", 2)
    message.validate_only = True
    assert desk.connect().call(message, 7).topics[0].num_partitions == 2
    assert desk.node.topics.get("orders") is None


def test_a_topic_named_twice_in_a_request_is_refused_once() -> None:
    message = create("orders")
    message.topics *= 2
    results = Desk().connect().call(message, 7).topics
    assert [(result.name, result.error_code) for result in results] == [("orders", ErrorCode.INVALID_REQUEST)]


def test_replicas_may_be_assigned_to_this_broker_only() -> None:
    desk = Desk()
    peer = desk.connect()

    def assigned(*brokers: list[int]) -> int:
        rows = [
            CreateTopicsRequest.Topic.Assignment(partition_index=index, broker_ids=ids)
            for index, ids in enumerate(brokers)
        ]
        topic = CreateTopicsRequest.Topic(name="orders", num_partitions=-1, replication_factor=-1, assignments=rows)
        code: int = peer.call(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code
        return code

    assert assigned([1], [2]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert assigned([1], [1]) == ErrorCode.NONE


@pytest.mark.parametrize("version", range(1, 7))
def test_a_deleted_topic_is_gone_with_its_files(version: int) -> None:
    desk = Desk()
    desk.create("orders", 2)
    peer = desk.connect()
    peer.call(produce("orders", batch(b"x")), 9)
    assert desk.disk.exists("orders-0")
    (result,) = peer.call(delete("orders"), version).responses
    assert (result.name, result.error_code) == ("orders", 0)
    assert not desk.disk.exists("orders-0")
    (again,) = peer.call(delete("orders"), version).responses
    assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_are_deleted_by_id_from_v6_on() -> None:
    desk = Desk()
    topic_id = desk.create("orders")
    peer = desk.connect()
    assert peer.call(delete(topic_id=b"?" * 16), 6).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert peer.call(delete("orders", topic_id), 6).responses[0].error_code == ErrorCode.INVALID_REQUEST
    assert peer.call(delete(topic_id=topic_id), 6).responses[0].name == "orders"


def test_deletion_can_be_forbidden() -> None:
    desk = Desk(delete_topic_enable="false")
    desk.create("orders")
    result = desk.connect().call(delete("orders"), 6).responses[0]
    assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED


def test_a_recreated_topic_has_another_id_and_none_of_the_old_records() -> None:
    desk = Desk()
    old = desk.create("orders")
    peer = desk.connect()
    peer.call(produce("orders", batch(b"old")), 9)
    peer.call(delete("orders"), 4)
    assert desk.create("orders") != old
    peer.send(fetch("orders", max_wait_ms=0), 11)
    assert only(peer.answers()[0]).high_watermark == 0


def grow(name: str, count: int, **fields: Any) -> CreatePartitionsRequest:
    topic = CreatePartitionsRequest.Topic(name=name, count=count, assignments=fields.pop("assignments", None))
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1, **fields)


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_and_never_shrinks(version: int) -> None:
    desk = Desk()
    desk.create("orders", 2)
    peer = desk.connect()
    assert peer.call(grow("orders", 5, validate_only=True), version).results[0].error_code == 0
    assert peer.call(grow("orders", 5), version).results[0].error_code == 0
    for count in (5, 4, 0, -1, 200_000):
        assert peer.call(grow("orders", count), version).results[0].error_code == ErrorCode.INVALID_PARTITIONS
    assert peer.call(grow("no", 3), version).results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(metadata(peer, "orders").topics[0].partitions) == 5


@pytest.mark.parametrize("clean", [True, False])
def test_topics_their_ids_and_settings_survive_a_restart(clean: bool) -> None:
    desk = Desk()
    topic_id = desk.create("orders", 2, retention_ms=77)
    desk.create("doomed")
    peer = desk.connect()
    peer.call(delete("doomed"), 4)
    peer.call(grow("orders", 3), 3)
    peer.call(produce("orders", batch(b"kept")), 9)
    cluster_id = metadata(peer).cluster_id
    desk = desk.restart(clean=clean)
    answer = metadata(desk.connect())
    assert answer.cluster_id == cluster_id
    (topic,) = answer.topics
    assert (topic.name, topic.topic_id) == ("orders", topic_id)
    assert [partition.leader_epoch for partition in topic.partitions] == [1, 1, 1]
    assert desk.node.topics.get("orders").config.get("retention.ms") == 77  # type: ignore[union-attr]
    assert only(desk.connect().call(fetch("orders"), 11)).high_watermark == 1


def test_a_deletion_that_a_crash_cut_short_is_finished_at_the_next_start() -> None:
    desk = Desk()
    desk.create("orders")
    desk.connect().call(produce("orders", batch(b"x")), 9)
    files = {path: file for path, file in desk.disk.files.items() if path.startswith("orders-0/")}
    desk.connect().call(delete("orders"), 4)
    desk.disk.make_directory("orders-0")
    desk.disk.files.update(files)
    desk = desk.restart(clean=False)
    assert not desk.disk.exists("orders-0")


def test_describe_topic_partitions_continues_where_it_was_cut_off() -> None:
    desk = Desk()
    for name in ("c", "a", "b"):
        desk.create(name, 3)
    peer = desk.connect()
    seen: list[tuple[str | None, int]] = []
    cursor = None
    while True:
        answer = peer.call(DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2, cursor=cursor), 0)
        seen += [(topic.name, partition.partition_index) for topic in answer.topics for partition in topic.partitions]
        if answer.next_cursor is None:
            break
        following = answer.next_cursor
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=following.topic_name, partition_index=following.partition_index
        )
    assert seen == [(name, index) for name in "abc" for index in range(3)]
    asked = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.Topic(name="zzz")])
    assert peer.call(asked, 0).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster_shows_one_broker_that_is_the_controller(version: int) -> None:
    desk = Desk()
    answer = desk.connect().call(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (answer.error_code, answer.controller_id, len(answer.brokers)) == (0, 1, 1)
    assert answer.cluster_id == desk.node.state.cluster_id
    assert answer.cluster_authorized_operations > 0
    if version >= 1:
        wrong = desk.connect().call(DescribeClusterRequest(endpoint_type=2), version)
        assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def test_a_full_disk_creates_no_topic_and_describes_those_there_are() -> None:
    desk = Desk()
    desk.create("orders")
    desk.disk.capacity = desk.disk.used
    peer = desk.connect()
    assert peer.call(create("new"), 7).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    there, missing = metadata(peer, "orders", "new").topics
    assert (there.error_code, missing.error_code) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
    desk.disk.capacity = None
    assert peer.call(create("new"), 7).topics[0].error_code == 0


def test_a_topic_recreated_after_a_deletion_that_failed_begins_empty() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    peer.call(produce("orders", batch(b"old")), 9)

    def refuse_removal(operation: str, path: str) -> None:
        if operation == "remove":
            raise StorageError(5, "input/output error", path)

    desk.disk.fault = refuse_removal
    assert peer.call(delete("orders"), 4).responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    desk.disk.fault = None
    assert desk.disk.exists("orders-0")
    desk.create("orders")
    assert only(peer.call(fetch("orders", max_wait_ms=0), 11)).high_watermark == 0
