"""kohort: Kafka's consumer-group system in Python. The names that users need, each loaded on first use."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - in a clone no installer has checked it; older Pythons parse this
    raise ImportError("kohort needs Python 3.11 or newer; this is " + sys.version.split()[0] + ", " + sys.executable)

from typing import TYPE_CHECKING

from kohort.model.lazy import lazy_exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kohort.assign import Assignor as Assignor
    from kohort.assign import CapacityAssignor as CapacityAssignor
    from kohort.assign import CooperativeStickyAssignor as CooperativeStickyAssignor
    from kohort.assign import GroupSpec as GroupSpec
    from kohort.assign import RangeAssignor as RangeAssignor
    from kohort.assign import RoundRobinAssignor as RoundRobinAssignor
    from kohort.assign import StickyAssignor as StickyAssignor
    from kohort.assign import TasksAssignor as TasksAssignor
    from kohort.assign import assignor as assignor
    from kohort.cli.main import main as main
    from kohort.client import Admin as Admin
    from kohort.client import AssignmentFailed as AssignmentFailed
    from kohort.client import Batch as Batch
    from kohort.client import BrokerUnreachable as BrokerUnreachable
    from kohort.client import ClientStopped as ClientStopped
    from kohort.client import CommitFailed as CommitFailed
    from kohort.client import Consumer as Consumer
    from kohort.client import ConsumerSettings as ConsumerSettings
    from kohort.client import CooperativeProtocol as CooperativeProtocol
    from kohort.client import DeadLetter as DeadLetter
    from kohort.client import DeserializationFailed as DeserializationFailed
    from kohort.client import EagerProtocol as EagerProtocol
    from kohort.client import GroupMember as GroupMember
    from kohort.client import JsonCodec as JsonCodec
    from kohort.client import Lag as Lag
    from kohort.client import MemberMetadata as MemberMetadata
    from kohort.client import OffsetAndMetadata as OffsetAndMetadata
    from kohort.client import OutputRecord as OutputRecord
    from kohort.client import PartitionErrors as PartitionErrors
    from kohort.client import Producer as Producer
    from kohort.client import ProducerFenced as ProducerFenced
    from kohort.client import ProducerSettings as ProducerSettings
    from kohort.client import RebalanceListener as RebalanceListener
    from kohort.client import Record as Record
    from kohort.client import RecordMetadata as RecordMetadata
    from kohort.client import Retry as Retry
    from kohort.client import Sasl as Sasl
    from kohort.client import SubscriptionPattern as SubscriptionPattern
    from kohort.client import TransactionAbortable as TransactionAbortable
    from kohort.client import TransactionAborted as TransactionAborted
    from kohort.client import TransactionError as TransactionError
    from kohort.client import TransactionFatal as TransactionFatal
    from kohort.client import TransactionRetriable as TransactionRetriable
    from kohort.client import UnknownPartition as UnknownPartition
    from kohort.client import UnknownTopic as UnknownTopic
    from kohort.client import share_evenly as share_evenly
    from kohort.client.config_file import config_from as config_from
    from kohort.client.prometheus import ConsumerCollector as ConsumerCollector
    from kohort.client.prometheus import ProducerCollector as ProducerCollector
    from kohort.client.service.service import Service as Service
    from kohort.group.explain.explain import explain as explain
    from kohort.model.acl import AclBinding as AclBinding
    from kohort.model.acl import AclFilter as AclFilter
    from kohort.model.acl import AclOperation as AclOperation
    from kohort.model.acl import AclPermission as AclPermission
    from kohort.model.acl import PatternType as PatternType
    from kohort.model.acl import ResourceType as ResourceType
    from kohort.model.errors import ErrorCode as ErrorCode
    from kohort.model.errors import KafkaError as KafkaError
    from kohort.model.ids import TopicPartition as TopicPartition
    from kohort.wire.record_batches import CorruptBatch as CorruptBatch

# Imported when first asked for: `import kohort` costs nothing, and a broker does not load the client.
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "kohort.assign": (
            "Assignor CapacityAssignor CooperativeStickyAssignor GroupSpec RangeAssignor RoundRobinAssignor "
            "StickyAssignor TasksAssignor assignor"
        ),
        "kohort.cli.main": "main",
        "kohort.client": (
            "Admin AssignmentFailed Batch BrokerUnreachable ClientStopped CommitFailed Consumer ConsumerSettings "
            "CooperativeProtocol DeadLetter DeserializationFailed EagerProtocol GroupMember JsonCodec Lag "
            "MemberMetadata OffsetAndMetadata OutputRecord PartitionErrors Producer ProducerFenced ProducerSettings "
            "RebalanceListener Record RecordMetadata Retry Sasl SubscriptionPattern TransactionAbortable "
            "TransactionAborted TransactionError TransactionFatal TransactionRetriable UnknownPartition UnknownTopic "
            "share_evenly"
        ),
        "kohort.client.config_file": "config_from",
        "kohort.client.prometheus": "ConsumerCollector ProducerCollector",
        "kohort.group.explain.explain": "explain",
        "kohort.model.acl": "AclBinding AclFilter AclOperation AclPermission PatternType ResourceType",
        "kohort.model.errors": "ErrorCode KafkaError",
        "kohort.model.ids": "TopicPartition",
        "kohort.client.service.service": "Service",
        "kohort.sim": "sim",
        "kohort.wire.record_batches": "CorruptBatch",
    },
)
