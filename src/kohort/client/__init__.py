"""Consumer, Producer and Admin for asyncio programs; `kohort.sync` has the same for all others."""

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
    from kohort.client.consumer.group_member import GroupMetadata
    from kohort.client.consumer.range_reader import read_ranges
    from kohort.client.consumer.topic_subscription import SubscriptionPattern
    from kohort.client.errors import (
        AssignmentFailed,
        BrokerUnreachable,
        ClientStopped,
        CommitFailed,
        DeserializationFailed,
        PartitionErrors,
        RebalanceInProgress,
        UnknownPartition,
        UnknownTopic,
    )
    from kohort.client.membership.membership import Membership
    from kohort.client.producer.accumulator import Delivery, RecordMetadata
    from kohort.client.producer.producer import Producer
    from kohort.client.rebalance_listener import RebalanceListener
    from kohort.net.sasl import Sasl

# Imported when first asked for: a program that only produces pays for nothing else.
_HOME_OF = {
    "Admin": "kohort.client.admin.admin",
    "AssignmentFailed": "kohort.client.errors",
    "Batch": "kohort.client.consumer.batch",
    "Broker": "kohort.client.cluster.metadata",
    "BrokerUnreachable": "kohort.client.errors",
    "ClientStopped": "kohort.client.errors",
    "Cluster": "kohort.client.cluster.cluster",
    "ClusterView": "kohort.client.cluster.metadata",
    "CommitFailed": "kohort.client.errors",
    "ConfigEntry": "kohort.client.admin.admin",
    "ConfigSource": "kohort.client.admin.admin",
    "Consumer": "kohort.client.consumer.consumer",
    "Delivery": "kohort.client.producer.accumulator",
    "DeserializationFailed": "kohort.client.errors",
    "GroupDescription": "kohort.client.admin.group_descriptions",
    "GroupListing": "kohort.client.admin.group_descriptions",
    "GroupMetadata": "kohort.client.consumer.group_member",
    "MemberDescription": "kohort.client.admin.group_descriptions",
    "Membership": "kohort.client.membership.membership",
    "OffsetAndMetadata": "kohort.client.cluster.committed_offsets",
    "OffsetAndTimestamp": "kohort.client.cluster.list_offsets",
    "PartitionErrors": "kohort.client.errors",
    "PartitionView": "kohort.client.cluster.metadata",
    "Producer": "kohort.client.producer.producer",
    "RebalanceInProgress": "kohort.client.errors",
    "RebalanceListener": "kohort.client.rebalance_listener",
    "RecordMetadata": "kohort.client.producer.accumulator",
    "ResourceType": "kohort.client.admin.admin",
    "Sasl": "kohort.net.sasl",
    "SubscriptionPattern": "kohort.client.consumer.topic_subscription",
    "TopicView": "kohort.client.cluster.metadata",
    "UnknownPartition": "kohort.client.errors",
    "UnknownTopic": "kohort.client.errors",
    "read_ranges": "kohort.client.consumer.range_reader",
}

__all__ = [
    "Admin",
    "AssignmentFailed",
    "Batch",
    "Broker",
    "BrokerUnreachable",
    "ClientStopped",
    "Cluster",
    "ClusterView",
    "CommitFailed",
    "ConfigEntry",
    "ConfigSource",
    "Consumer",
    "Delivery",
    "DeserializationFailed",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "MemberDescription",
    "Membership",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionErrors",
    "PartitionView",
    "Producer",
    "RebalanceInProgress",
    "RebalanceListener",
    "RecordMetadata",
    "ResourceType",
    "Sasl",
    "SubscriptionPattern",
    "TopicView",
    "UnknownPartition",
    "UnknownTopic",
    "read_ranges",
]

__getattr__ = lazy_exports(__name__, _HOME_OF)


def __dir__() -> list[str]:
    return sorted(__all__)
