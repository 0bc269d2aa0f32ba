"""Consumer, Producer and Admin for asyncio programs, and what they share.

`kohort.sync` has the same clients for programs without an event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.model.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.client.admin.admin import Admin as Admin
    from kohort.client.admin.admin import ConfigEntry as ConfigEntry
    from kohort.client.admin.admin import ConfigSource as ConfigSource
    from kohort.client.admin.admin import ResourceType as ResourceType
    from kohort.client.admin.group_descriptions import GroupDescription as GroupDescription
    from kohort.client.admin.group_descriptions import GroupListing as GroupListing
    from kohort.client.admin.group_descriptions import MemberDescription as MemberDescription
    from kohort.client.admin.log_directories import LogDirectory as LogDirectory
    from kohort.client.admin.transaction_descriptions import ProducerState as ProducerState
    from kohort.client.admin.transaction_descriptions import TransactionDescription as TransactionDescription
    from kohort.client.admin.transaction_descriptions import TransactionListing as TransactionListing
    from kohort.client.cluster.cluster import Cluster as Cluster
    from kohort.client.cluster.committed_offsets import GroupMetadata as GroupMetadata
    from kohort.client.cluster.committed_offsets import OffsetAndMetadata as OffsetAndMetadata
    from kohort.client.cluster.list_offsets import OffsetAndTimestamp as OffsetAndTimestamp
    from kohort.client.cluster.metadata import Broker as Broker
    from kohort.client.cluster.metadata import ClusterView as ClusterView
    from kohort.client.cluster.metadata import PartitionView as PartitionView
    from kohort.client.cluster.metadata import TopicView as TopicView
    from kohort.client.consumer.batch import Batch as Batch
    from kohort.client.consumer.consumer import Consumer as Consumer
    from kohort.client.consumer.consumer_settings import ConsumerSettings as ConsumerSettings
    from kohort.client.consumer.processing.copies import OutputRecord as OutputRecord
    from kohort.client.consumer.processing.error_policies import DeadLetter as DeadLetter
    from kohort.client.consumer.processing.error_policies import Retry as Retry
    from kohort.client.consumer.range_reader import read_ranges as read_ranges
    from kohort.client.consumer.topic_subscription import SubscriptionPattern as SubscriptionPattern
    from kohort.client.errors import AssignmentFailed as AssignmentFailed
    from kohort.client.errors import BrokerUnreachable as BrokerUnreachable
    from kohort.client.errors import ClientStopped as ClientStopped
    from kohort.client.errors import CommitFailed as CommitFailed
    from kohort.client.errors import DeserializationFailed as DeserializationFailed
    from kohort.client.errors import PartitionErrors as PartitionErrors
    from kohort.client.errors import ProducerFenced as ProducerFenced
    from kohort.client.errors import RebalanceInProgress as RebalanceInProgress
    from kohort.client.errors import TransactionAbortable as TransactionAbortable
    from kohort.client.errors import TransactionAborted as TransactionAborted
    from kohort.client.errors import TransactionError as TransactionError
    from kohort.client.errors import TransactionFatal as TransactionFatal
    from kohort.client.errors import TransactionRetriable as TransactionRetriable
    from kohort.client.errors import UnknownPartition as UnknownPartition
    from kohort.client.errors import UnknownTopic as UnknownTopic
    from kohort.client.membership.membership import Membership as Membership
    from kohort.client.membership.membership import MembershipSettings as MembershipSettings
    from kohort.client.membership.user_callbacks import RebalanceListener as RebalanceListener
    from kohort.client.own_groups.group_member import GroupMember as GroupMember
    from kohort.client.own_groups.group_protocols import BytesCodec as BytesCodec
    from kohort.client.own_groups.group_protocols import CooperativeProtocol as CooperativeProtocol
    from kohort.client.own_groups.group_protocols import EagerProtocol as EagerProtocol
    from kohort.client.own_groups.group_protocols import JsonCodec as JsonCodec
    from kohort.client.own_groups.group_protocols import MemberMetadata as MemberMetadata
    from kohort.client.own_groups.group_protocols import share_evenly as share_evenly
    from kohort.client.producer.accumulator import Delivery as Delivery
    from kohort.client.producer.accumulator import RecordMetadata as RecordMetadata
    from kohort.client.producer.open_transaction import Transaction as Transaction
    from kohort.client.producer.producer import Producer as Producer
    from kohort.client.producer.producer import ProducerSettings as ProducerSettings
    from kohort.client.record import Record as Record
    from kohort.model.lag import Lag as Lag
    from kohort.model.lag import LagReason as LagReason
    from kohort.net.sasl import Sasl as Sasl

# Imported when first asked for: a program that only produces pays for nothing else.
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "kohort.client.admin.admin": "Admin ConfigEntry ConfigSource ResourceType",
        "kohort.client.admin.group_descriptions": "GroupDescription GroupListing MemberDescription",
        "kohort.client.admin.log_directories": "LogDirectory",
        "kohort.client.admin.transaction_descriptions": "ProducerState TransactionDescription TransactionListing",
        "kohort.client.cluster.cluster": "Cluster",
        "kohort.client.cluster.committed_offsets": "GroupMetadata OffsetAndMetadata",
        "kohort.client.cluster.list_offsets": "OffsetAndTimestamp",
        "kohort.client.cluster.metadata": "Broker ClusterView PartitionView TopicView",
        "kohort.client.consumer.batch": "Batch",
        "kohort.client.consumer.consumer": "Consumer",
        "kohort.client.consumer.consumer_settings": "ConsumerSettings",
        "kohort.client.consumer.processing.copies": "OutputRecord",
        "kohort.client.consumer.processing.error_policies": "DeadLetter Retry",
        "kohort.client.consumer.range_reader": "read_ranges",
        "kohort.client.consumer.topic_subscription": "SubscriptionPattern",
        "kohort.client.errors": (
            "AssignmentFailed BrokerUnreachable ClientStopped CommitFailed DeserializationFailed PartitionErrors "
            "ProducerFenced RebalanceInProgress TransactionAbortable TransactionAborted TransactionError "
            "TransactionFatal TransactionRetriable UnknownPartition UnknownTopic"
        ),
        "kohort.client.membership.membership": "Membership MembershipSettings",
        "kohort.client.membership.user_callbacks": "RebalanceListener",
        "kohort.client.own_groups.group_member": "GroupMember",
        "kohort.client.own_groups.group_protocols": (
            "BytesCodec CooperativeProtocol EagerProtocol JsonCodec MemberMetadata share_evenly"
        ),
        "kohort.client.producer.accumulator": "Delivery RecordMetadata",
        "kohort.client.producer.open_transaction": "Transaction",
        "kohort.client.producer.producer": "Producer ProducerSettings",
        "kohort.client.record": "Record",
        "kohort.model.lag": "Lag LagReason",
        "kohort.net.sasl": "Sasl",
    },
)
