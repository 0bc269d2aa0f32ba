"""A request of each API that checks something: which rights it takes, and the error without each of them.

The requests are about the topic `orders`, the group `billing` and the transactional id `shop`. The same cases are sent
to our broker in memory and, side by side, to one of ours and a real Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kohort.model.acl import CLUSTER_NAME, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from kohort.model.errors import ErrorCode
from kohort.wire import messages as m
from kohort.wire.apis import Api
from kohort.wire.record_batches import Record, encode_batch

Right = tuple[AclOperation, ResourceType]

TOPIC, GROUP, CLUSTER, TXN = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
NAMES = {TOPIC: "orders", GROUP: "billing", CLUSTER: CLUSTER_NAME, TXN: "shop"}
TOPIC_FAILED, GROUP_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TXN_FAILED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
FAILURES = frozenset({TOPIC_FAILED, GROUP_FAILED, CLUSTER_FAILED, TXN_FAILED})
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
)
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
CLUSTER_ACTION, IDEMPOTENT_WRITE = AclOperation.CLUSTER_ACTION, AclOperation.IDEMPOTENT_WRITE


@dataclass(frozen=True)
class Case:
    """One request. `rights` are those it takes, each with the error where it is missing.

    Without any right the error is that of the first.
    """

    name: str
    message: Any
    version: int
    rights: dict[Right, ErrorCode]

    def __str__(self) -> str:
        return self.name

    @property
    def api(self) -> Api:
        """The API of the request."""
        return Api(self.message.API_KEY)


def allowing(right: Right, principal: str = "User:alice", name: str | None = None) -> AclBinding:
    """Return the rule that gives a right on the resource of its type."""
    operation, kind = right
    resource = NAMES[kind] if name is None else name
    return AclBinding(kind, resource, PatternType.LITERAL, principal, "*", operation, AclPermission.ALLOW)


def errors_in(value: Any) -> Iterator[ErrorCode]:
    """Yield the refusals in a response, each as often as it occurs."""
    if isinstance(value, list):
        for each in value:
            yield from errors_in(each)
        return
    for name in getattr(value, "__slots__", ()):
        found = getattr(value, name)
        if name in ("error_code", "partition_error_code", "topic_config_error_code") and found in FAILURES:
            yield ErrorCode(found)
        elif not isinstance(found, int | str | bytes | None):
            yield from errors_in(found)


def _records() -> bytes:
    return encode_batch([Record(0, 1_700_000_000_000, None, b"v")])


def _produce(transactional_id: str | None = None) -> m.ProduceRequest:
    data = m.ProduceRequest.TopicData
    partition = data.PartitionData(index=0, records=_records() if transactional_id is None else _transactional())
    return m.ProduceRequest(
        transactional_id=transactional_id,
        acks=1,
        timeout_ms=1000,
        topic_data=[data(name="orders", partition_data=[partition])],
    )


def _transactional() -> bytes:
    return encode_batch(
        [Record(0, 1_700_000_000_000, None, b"v")],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def _commit(cls: Any, **fields: Any) -> Any:
    partition = cls.Topic.Partition(partition_index=0, committed_offset=3)
    return cls(group_id="billing", topics=[cls.Topic(name="orders", partitions=[partition])], **fields)


def _config(cls: Any, kind: int, name: str, setting: str, value: str, **fields: Any) -> Any:
    config = cls.Resource.Config(name=setting, value=value)
    return cls(resources=[cls.Resource(resource_type=kind, resource_name=name, configs=[config])], **fields)


def _described(kind: int, name: str, *keys: str) -> m.DescribeConfigsRequest:
    resource = m.DescribeConfigsRequest.Resource
    return m.DescribeConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configuration_keys=list(keys))]
    )


def _in_partition(cls: Any, fields: dict[str, Any], *, request: Any = None, **topic: Any) -> Any:
    return cls(topics=[cls.Topic(partitions=[cls.Topic.Partition(**fields)], **topic)], **(request or {}))


_T, _G, _B = 2, 32, 4
_ALTER_ORDERS: tuple[int, str, str, str] = (_T, "orders", "retention.ms", "1000000")
_ALTER_BILLING: tuple[int, str, str, str] = (_G, "billing", "consumer.session.timeout.ms", "50000")
_JOIN = m.JoinGroupRequest(
    group_id="billing",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=10_000,
    protocol_type="consumer",
    protocols=[m.JoinGroupRequest.Protocol(name="range", metadata=b"")],
)
_SYNC = m.SyncGroupRequest(
    group_id="billing", generation_id=1, member_id="m", protocol_type="consumer", protocol_name="r"
)
_LEAVE = m.LeaveGroupRequest(group_id="billing", members=[m.LeaveGroupRequest.Member(member_id="m")])
_MARKER = m.WriteTxnMarkersRequest.Marker
_CREATION = m.CreateAclsRequest.Creation

CASES = (
    Case("Produce", _produce(), 9, {(WRITE, TOPIC): TOPIC_FAILED}),
    Case("Produce in a transaction", _produce("shop"), 9, {(WRITE, TXN): TXN_FAILED, (WRITE, TOPIC): TOPIC_FAILED}),
    Case(
        "Fetch",
        _in_partition(m.FetchRequest, {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}, topic="orders"),
        12,
        {(READ, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "ListOffsets",
        _in_partition(m.ListOffsetsRequest, {"partition_index": 0, "timestamp": -1}, name="orders"),
        7,
        {(DESCRIBE, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "Metadata of a topic",
        m.MetadataRequest(topics=[m.MetadataRequest.Topic(name="orders")], allow_auto_topic_creation=False),
        9,
        {(DESCRIBE, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "DescribeTopicPartitions",
        m.DescribeTopicPartitionsRequest(topics=[m.DescribeTopicPartitionsRequest.Topic(name="orders")]),
        0,
        {(DESCRIBE, TOPIC): TOPIC_FAILED},
    ),
    Case("OffsetCommit", _commit(m.OffsetCommitRequest), 8, {(READ, GROUP): GROUP_FAILED, (READ, TOPIC): TOPIC_FAILED}),
    Case(
        "OffsetFetch",
        m.OffsetFetchRequest(
            groups=[
                m.OffsetFetchRequest.Group(
                    group_id="billing",
                    topics=[m.OffsetFetchRequest.Group.Topic(name="orders", partition_indexes=[0])],
                )
            ]
        ),
        9,
        {(DESCRIBE, GROUP): GROUP_FAILED, (DESCRIBE, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "OffsetFetch of one group",
        m.OffsetFetchRequest(
            group_id="billing", topics=[m.OffsetFetchRequest.Topic(name="orders", partition_indexes=[0])]
        ),
        7,
        {(DESCRIBE, GROUP): GROUP_FAILED, (DESCRIBE, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "FindCoordinator of a group",
        m.FindCoordinatorRequest(key_type=0, coordinator_keys=["billing"]),
        4,
        {(DESCRIBE, GROUP): GROUP_FAILED},
    ),
    Case(
        "FindCoordinator of one group",
        m.FindCoordinatorRequest(key_type=0, key="billing"),
        3,
        {(DESCRIBE, GROUP): GROUP_FAILED},
    ),
    Case(
        "FindCoordinator of a transactional id",
        m.FindCoordinatorRequest(key_type=1, coordinator_keys=["shop"]),
        4,
        {(DESCRIBE, TXN): TXN_FAILED},
    ),
    Case("JoinGroup", _JOIN, 9, {(READ, GROUP): GROUP_FAILED}),
    Case("SyncGroup", _SYNC, 5, {(READ, GROUP): GROUP_FAILED}),
    Case(
        "Heartbeat",
        m.HeartbeatRequest(group_id="billing", generation_id=1, member_id="m"),
        4,
        {(READ, GROUP): GROUP_FAILED},
    ),
    Case("LeaveGroup", _LEAVE, 5, {(READ, GROUP): GROUP_FAILED}),
    Case("DescribeGroups", m.DescribeGroupsRequest(groups=["billing"]), 5, {(DESCRIBE, GROUP): GROUP_FAILED}),
    Case("DeleteGroups", m.DeleteGroupsRequest(groups_names=["billing"]), 2, {(DELETE, GROUP): GROUP_FAILED}),
    Case(
        "OffsetDelete",
        _in_partition(m.OffsetDeleteRequest, {"partition_index": 0}, request={"group_id": "billing"}, name="orders"),
        0,
        {(DELETE, GROUP): GROUP_FAILED, (READ, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "ConsumerGroupHeartbeat",
        m.ConsumerGroupHeartbeatRequest(
            group_id="billing",
            member_id="8Ed5eIJLSm6wzy7zlgGKSg",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        ),
        1,
        {(READ, GROUP): GROUP_FAILED, (DESCRIBE, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "ConsumerGroupDescribe",
        m.ConsumerGroupDescribeRequest(group_ids=["billing"]),
        1,
        {(DESCRIBE, GROUP): GROUP_FAILED},
    ),
    Case(
        "StreamsGroupHeartbeat",
        m.StreamsGroupHeartbeatRequest(
            group_id="billing",
            member_id="m",
            rebalance_timeout_ms=60_000,
            topology=m.StreamsGroupHeartbeatRequest.Topology(
                epoch=0,
                subtopologies=[
                    m.StreamsGroupHeartbeatRequest.Topology.Subtopology(
                        subtopology_id="0",
                        source_topics=["orders"],
                        source_topic_regex=[],
                        state_changelog_topics=[],
                        repartition_sink_topics=[],
                        repartition_source_topics=[],
                        copartition_groups=[],
                    )
                ],
            ),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="p",
        ),
        0,
        {(READ, GROUP): GROUP_FAILED, (DESCRIBE, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "StreamsGroupDescribe",
        m.StreamsGroupDescribeRequest(group_ids=["billing"]),
        0,
        {(DESCRIBE, GROUP): GROUP_FAILED},
    ),
    Case(
        "StreamsGroupTopologyDescriptionUpdate",
        m.StreamsGroupTopologyDescriptionUpdateRequest(
            group_id="billing",
            member_id="m",
            topology_epoch=0,
            topology_description=m.StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription(),
        ),
        0,
        {(READ, GROUP): GROUP_FAILED},
    ),
    Case(
        "CreateTopics",
        m.CreateTopicsRequest(
            topics=[m.CreateTopicsRequest.Topic(name="orders", num_partitions=1, replication_factor=1)]
        ),
        7,
        {(CREATE, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "DeleteTopics",
        m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest.Topic(name="orders")], timeout_ms=10_000),
        6,
        {(DELETE, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "CreatePartitions",
        m.CreatePartitionsRequest(
            topics=[m.CreatePartitionsRequest.Topic(name="orders", count=2, assignments=None)], timeout_ms=1000
        ),
        3,
        {(ALTER, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "DeleteRecords",
        _in_partition(m.DeleteRecordsRequest, {"partition_index": 0, "offset": 0}, name="orders"),
        2,
        {(DELETE, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "OffsetForLeaderEpoch",
        _in_partition(m.OffsetForLeaderEpochRequest, {"partition": 0, "leader_epoch": 0}, topic="orders"),
        4,
        {(DESCRIBE, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "DescribeProducers",
        m.DescribeProducersRequest(topics=[m.DescribeProducersRequest.Topic(name="orders", partition_indexes=[0])]),
        0,
        {(READ, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "InitProducerId of a transactional id",
        m.InitProducerIdRequest(transactional_id="shop", transaction_timeout_ms=1000),
        4,
        {(WRITE, TXN): TXN_FAILED},
    ),
    Case(
        "InitProducerId",
        m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        4,
        {(IDEMPOTENT_WRITE, CLUSTER): CLUSTER_FAILED},
    ),
    Case(
        "InitProducerId of a writer",
        m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        4,
        {(WRITE, TOPIC): CLUSTER_FAILED},
    ),
    Case(
        "AddPartitionsToTxn",
        m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="shop",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[m.AddPartitionsToTxnRequest.V3AndBelowTopic(name="orders", partitions=[0])],
        ),
        3,
        {(WRITE, TXN): TXN_FAILED, (WRITE, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "AddPartitionsToTxn of a broker",
        m.AddPartitionsToTxnRequest(
            transactions=[
                m.AddPartitionsToTxnRequest.Transaction(
                    transactional_id="shop",
                    producer_id=1,
                    verify_only=True,
                    topics=[m.AddPartitionsToTxnRequest.Transaction.Topic(name="orders", partitions=[0])],
                )
            ]
        ),
        4,
        {(CLUSTER_ACTION, CLUSTER): CLUSTER_FAILED},
    ),
    Case(
        "AddOffsetsToTxn",
        m.AddOffsetsToTxnRequest(transactional_id="shop", producer_id=1, producer_epoch=0, group_id="billing"),
        3,
        {(WRITE, TXN): TXN_FAILED, (READ, GROUP): GROUP_FAILED},
    ),
    Case(
        "TxnOffsetCommit",
        _commit(m.TxnOffsetCommitRequest, transactional_id="shop", producer_id=1, producer_epoch=0),
        3,
        {(WRITE, TXN): TXN_FAILED, (READ, GROUP): GROUP_FAILED, (READ, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "EndTxn",
        m.EndTxnRequest(transactional_id="shop", producer_id=1, producer_epoch=0, committed=True),
        3,
        {(WRITE, TXN): TXN_FAILED},
    ),
    Case(
        "WriteTxnMarkers",
        m.WriteTxnMarkersRequest(
            markers=[_MARKER(producer_id=1, topics=[_MARKER.Topic(name="orders", partition_indexes=[0])])]
        ),
        1,
        {(ALTER, CLUSTER): CLUSTER_FAILED},
    ),
    Case(
        "WriteTxnMarkers of a broker",
        m.WriteTxnMarkersRequest(
            markers=[_MARKER(producer_id=1, topics=[_MARKER.Topic(name="orders", partition_indexes=[0])])]
        ),
        1,
        {(CLUSTER_ACTION, CLUSTER): CLUSTER_FAILED},
    ),
    Case(
        "DescribeTransactions",
        m.DescribeTransactionsRequest(transactional_ids=["shop"]),
        0,
        {(DESCRIBE, TXN): TXN_FAILED},
    ),
    Case(
        "DescribeConfigs of a topic",
        _described(_T, "orders", "retention.ms"),
        4,
        {(DESCRIBE_CONFIGS, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "DescribeConfigs of a group",
        _described(_G, "billing", "consumer.session.timeout.ms"),
        4,
        {(DESCRIBE_CONFIGS, GROUP): GROUP_FAILED},
    ),
    Case(
        "DescribeConfigs of the broker",
        _described(_B, "1", "num.partitions"),
        4,
        {(DESCRIBE_CONFIGS, CLUSTER): CLUSTER_FAILED},
    ),
    Case(
        "AlterConfigs of a topic",
        _config(m.AlterConfigsRequest, *_ALTER_ORDERS),
        2,
        {(ALTER_CONFIGS, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "AlterConfigs of a group",
        _config(m.AlterConfigsRequest, *_ALTER_BILLING),
        2,
        {(ALTER_CONFIGS, GROUP): GROUP_FAILED},
    ),
    Case(
        "IncrementalAlterConfigs of a topic",
        _config(m.IncrementalAlterConfigsRequest, *_ALTER_ORDERS),
        1,
        {(ALTER_CONFIGS, TOPIC): TOPIC_FAILED},
    ),
    Case(
        "IncrementalAlterConfigs of the broker",
        _config(m.IncrementalAlterConfigsRequest, _B, "1", "log.cleaner.backoff.ms", "15000", validate_only=True),
        1,
        {(ALTER_CONFIGS, CLUSTER): CLUSTER_FAILED},
    ),
    Case("ListConfigResources", m.ListConfigResourcesRequest(), 1, {(DESCRIBE_CONFIGS, CLUSTER): CLUSTER_FAILED}),
    Case("DescribeLogDirs", m.DescribeLogDirsRequest(topics=None), 4, {(DESCRIBE, CLUSTER): CLUSTER_FAILED}),
    Case(
        "DescribeAcls",
        m.DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1),
        3,
        {(DESCRIBE, CLUSTER): CLUSTER_FAILED},
    ),
    Case(
        "CreateAcls",
        m.CreateAclsRequest(
            creations=[
                _CREATION(
                    resource_type=TOPIC,
                    resource_name="x",
                    principal="User:zoe",
                    host="*",
                    operation=READ,
                    permission_type=AclPermission.ALLOW,
                )
            ]
        ),
        3,
        {(ALTER, CLUSTER): CLUSTER_FAILED},
    ),
    Case(
        "DeleteAcls",
        m.DeleteAclsRequest(
            filters=[
                m.DeleteAclsRequest.Filter(
                    resource_type_filter=TOPIC,
                    resource_name_filter="nothing",
                    pattern_type_filter=PatternType.LITERAL,
                    operation=1,
                    permission_type=1,
                )
            ]
        ),
        3,
        {(ALTER, CLUSTER): CLUSTER_FAILED},
    ),
    Case(
        "DescribeUserScramCredentials",
        m.DescribeUserScramCredentialsRequest(users=[m.DescribeUserScramCredentialsRequest.UserName(name="zoe")]),
        0,
        {(DESCRIBE, CLUSTER): CLUSTER_FAILED},
    ),
    Case(
        "AlterUserScramCredentials",
        m.AlterUserScramCredentialsRequest(
            deletions=[m.AlterUserScramCredentialsRequest.Deletion(name="zoe", mechanism=1)]
        ),
        0,
        {(ALTER, CLUSTER): CLUSTER_FAILED},
    ),
    Case(
        "DescribeClientQuotas",
        m.DescribeClientQuotasRequest(components=[]),
        1,
        {(DESCRIBE_CONFIGS, CLUSTER): CLUSTER_FAILED},
    ),
)

LISTS = frozenset({Api.METADATA, Api.LIST_GROUPS, Api.LIST_TRANSACTIONS, Api.DESCRIBE_CLUSTER})
"""APIs that refuse nothing, or nothing in one of their forms: what they leave out is tested by itself."""
