"""Consumer, Producer and Admin for asyncio programs, and what they share.

`kohort.sync` has the same clients for programs without an event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.client.admin.admin import Admin, ConfigEntry, ConfigSource, ResourceType
    from kohort.client.admin.group_descriptions import GroupDescription, GroupListing, MemberDescription
    from kohort.client.cluster.cluster import Cluster
    from kohort.client.cluster.committed_offsets import OffsetAndMetadata
    from kohort.client.cluster.list_offsets import OffsetAndTimestamp
    from kohort.client.cluster.metadata import Broker, ClusterView, PartitionView, TopicView
    from kohort.client.consumer.batch import Batch
    from kohort.client.consumer.consumer import Consumer
    from kohort.client.consumer.range_reader import read_ranges
    from kohort.client.consumer.topic_subscription import SubscriptionPattern
    from kohort.client.errors import (
        AssignmentFailed,
        BrokerUnreachable,
        ClientStopped,
        CommitFailed,
        DeserializationFailed,
        PartitionErrors,
        ProducerFenced,
        RebalanceInProgress,
        TransactionAbortable,
        TransactionAborted,
        TransactionError,
        TransactionFatal,
        TransactionRetriable,
        UnknownPartition,
        UnknownTopic,
    )
    from kohort.client.group_metadata import GroupMetadata
    from kohort.client.membership.membership import Membership
    from kohort.client.own_groups.group_member import GroupMember
    from kohort.client.own_groups.group_protocols import (
        BytesCodec,
        CooperativeProtocol,
        EagerProtocol,
        JsonCodec,
        MemberMetadata,
        share_evenly,
    )
    from kohort.client.producer.accumulator import Delivery, RecordMetadata
    from kohort.client.producer.open_transaction import Transaction
    from kohort.client.producer.producer import Producer
    from kohort.client.rebalance_listener import RebalanceListener
    from kohort.net.sasl import Sasl

# Imported when first asked for: a program that only produces pays for nothing else.
_NAMES_IN = {
    "kohort.client.admin.admin": "Admin ConfigEntry ConfigSource ResourceType",
    "kohort.client.admin.group_descriptions": "GroupDescription GroupListing MemberDescription",
    "kohort.client.cluster.cluster": "Cluster",
    "kohort.client.cluster.committed_offsets": "OffsetAndMetadata",
    "kohort.client.cluster.list_offsets": "OffsetAndTimestamp",
    "kohort.client.cluster.metadata": "Broker ClusterView PartitionView TopicView",
    "kohort.client.consumer.batch": "Batch",
    "kohort.client.consumer.consumer": "Consumer",
    "kohort.client.consumer.range_reader": "read_ranges",
    "kohort.client.consumer.topic_subscription": "SubscriptionPattern",
    "kohort.client.errors": (
        "AssignmentFailed BrokerUnreachable ClientStopped CommitFailed DeserializationFailed PartitionErrors "
        "ProducerFenced RebalanceInProgress TransactionAbortable TransactionAborted TransactionError TransactionFatal "
        "TransactionRetriable UnknownPartition UnknownTopic"
    ),
    "kohort.client.group_metadata": "GroupMetadata",
    "kohort.client.membership.membership": "Membership",
    "kohort.client.own_groups.group_member": "GroupMember",
    "kohort.client.own_groups.group_protocols": (
        "BytesCodec CooperativeProtocol EagerProtocol JsonCodec MemberMetadata share_evenly"
    ),
    "kohort.client.producer.accumulator": "Delivery RecordMetadata",
    "kohort.client.producer.open_transaction": "Transaction",
    "kohort.client.producer.producer": "Producer",
    "kohort.client.rebalance_listener": "RebalanceListener",
    "kohort.net.sasl": "Sasl",
}

__all__ = [
    "Admin",
    "AssignmentFailed",
    "Batch",
    "Broker",
    "BrokerUnreachable",
    "BytesCodec",
    "ClientStopped",
    "Cluster",
    "ClusterView",
    "CommitFailed",
    "ConfigEntry",
    "ConfigSource",
    "Consumer",
    "CooperativeProtocol",
    "Delivery",
    "DeserializationFailed",
    "EagerProtocol",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "JsonCodec",
    "MemberDescription",
    "MemberMetadata",
    "Membership",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionErrors",
    "PartitionView",
    "Producer",
    "ProducerFenced",
    "RebalanceInProgress",
    "RebalanceListener",
    "RecordMetadata",
    "ResourceType",
    "Sasl",
    "SubscriptionPattern",
    "TopicView",
    "Transaction",
    "TransactionAbortable",
    "TransactionAborted",
    "TransactionError",
    "TransactionFatal",
    "TransactionRetriable",
    "UnknownPartition",
    "UnknownTopic",
    "read_ranges",
    "share_evenly",
]

__getattr__ = lazy_exports(__name__, _NAMES_IN)


def __dir__() -> list[str]:
    return sorted(__all__)
