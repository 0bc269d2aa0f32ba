"""Consumer, Producer and Admin for asyncio programs; `kohort.sync` has the same for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.client.accumulator import Delivery, RecordMetadata
    from kohort.client.admin import Admin, ConfigEntry, ConfigSource, ResourceType
    from kohort.client.batch import Batch
    from kohort.client.cluster import Cluster
    from kohort.client.committing import GroupMetadata
    from kohort.client.consumer import Consumer
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
    from kohort.client.group_views import GroupDescription, GroupListing, MemberDescription
    from kohort.client.list_offsets import OffsetAndTimestamp
    from kohort.client.listener import RebalanceListener
    from kohort.client.membership import Membership
    from kohort.client.offsets import OffsetAndMetadata
    from kohort.client.producer import Producer
    from kohort.client.range_reader import read_ranges
    from kohort.client.view import Broker, ClusterView, PartitionView, TopicView
    from kohort.client.wanted import SubscriptionPattern
    from kohort.net.sasl import Sasl

# Imported when first asked for: a program that only produces pays for nothing else.
_HOME_OF = {
    "Admin": "kohort.client.admin",
    "AssignmentFailed": "kohort.client.errors",
    "Batch": "kohort.client.batch",
    "Broker": "kohort.client.view",
    "BrokerUnreachable": "kohort.client.errors",
    "ClientStopped": "kohort.client.errors",
    "Cluster": "kohort.client.cluster",
    "ClusterView": "kohort.client.view",
    "CommitFailed": "kohort.client.errors",
    "ConfigEntry": "kohort.client.admin",
    "ConfigSource": "kohort.client.admin",
    "Consumer": "kohort.client.consumer",
    "Delivery": "kohort.client.accumulator",
    "DeserializationFailed": "kohort.client.errors",
    "GroupDescription": "kohort.client.group_views",
    "GroupListing": "kohort.client.group_views",
    "GroupMetadata": "kohort.client.committing",
    "MemberDescription": "kohort.client.group_views",
    "Membership": "kohort.client.membership",
    "OffsetAndMetadata": "kohort.client.offsets",
    "OffsetAndTimestamp": "kohort.client.list_offsets",
    "PartitionErrors": "kohort.client.errors",
    "PartitionView": "kohort.client.view",
    "Producer": "kohort.client.producer",
    "RebalanceInProgress": "kohort.client.errors",
    "RebalanceListener": "kohort.client.listener",
    "RecordMetadata": "kohort.client.accumulator",
    "ResourceType": "kohort.client.admin",
    "Sasl": "kohort.net.sasl",
    "SubscriptionPattern": "kohort.client.wanted",
    "TopicView": "kohort.client.view",
    "UnknownPartition": "kohort.client.errors",
    "UnknownTopic": "kohort.client.errors",
    "read_ranges": "kohort.client.range_reader",
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
