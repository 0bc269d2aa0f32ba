"""Consumer, Producer and Admin for asyncio programs; `kohort.sync` has the same for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kohort.client.accumulator import Delivery, RecordMetadata
    from kohort.client.admin import Admin, ConfigEntry, ConfigSource, ResourceType
    from kohort.client.batch import Batch
    from kohort.client.cluster import Cluster
    from kohort.client.consumer import Consumer
    from kohort.client.errors import (
        BrokerUnreachable,
        CommitFailed,
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
    from kohort.net.sasl import Sasl

# Imported when first asked for: a program that only produces pays for nothing else.
_HOMES = {
    "kohort.client.accumulator": ("Delivery", "RecordMetadata"),
    "kohort.client.admin": ("Admin", "ConfigEntry", "ConfigSource", "ResourceType"),
    "kohort.client.batch": ("Batch",),
    "kohort.client.cluster": ("Cluster",),
    "kohort.client.consumer": ("Consumer",),
    "kohort.client.errors": (
        "BrokerUnreachable",
        "CommitFailed",
        "PartitionErrors",
        "RebalanceInProgress",
        "UnknownPartition",
        "UnknownTopic",
    ),
    "kohort.client.group_views": ("GroupDescription", "GroupListing", "MemberDescription"),
    "kohort.client.list_offsets": ("OffsetAndTimestamp",),
    "kohort.client.listener": ("RebalanceListener",),
    "kohort.client.membership": ("Membership",),
    "kohort.client.offsets": ("OffsetAndMetadata",),
    "kohort.client.producer": ("Producer",),
    "kohort.client.range_reader": ("read_ranges",),
    "kohort.client.view": ("Broker", "ClusterView", "PartitionView", "TopicView"),
    "kohort.net.sasl": ("Sasl",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Admin",
    "Batch",
    "Broker",
    "BrokerUnreachable",
    "Cluster",
    "ClusterView",
    "CommitFailed",
    "ConfigEntry",
    "ConfigSource",
    "Consumer",
    "Delivery",
    "GroupDescription",
    "GroupListing",
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
    "TopicView",
    "UnknownPartition",
    "UnknownTopic",
    "read_ranges",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
