"""kohort: Kafka's consumer-group system in Python. The names that users need, each loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kohort.assign import (
        CapacityAssignor,
        CooperativeStickyAssignor,
        RangeAssignor,
        RoundRobinAssignor,
        StickyAssignor,
        TasksAssignor,
        assignor,
    )
    from kohort.client import (
        Admin,
        AssignmentFailed,
        Batch,
        BrokerUnreachable,
        ClientStopped,
        CommitFailed,
        Consumer,
        CooperativeProtocol,
        DeserializationFailed,
        EagerProtocol,
        GroupMember,
        JsonCodec,
        MemberMetadata,
        OffsetAndMetadata,
        PartitionErrors,
        Producer,
        ProducerFenced,
        RebalanceListener,
        RecordMetadata,
        Sasl,
        SubscriptionPattern,
        TransactionAbortable,
        TransactionAborted,
        TransactionError,
        TransactionFatal,
        TransactionRetriable,
        UnknownPartition,
        UnknownTopic,
        share_evenly,
    )
    from kohort.model.errors import ErrorCode, KafkaError
    from kohort.model.ids import TopicPartition
    from kohort.wire.record_batches import CorruptBatch, Record

# Imported when first asked for: `import kohort` costs nothing, and a broker does not load the client.
_NAMES_IN = {
    "kohort.assign": (
        "CapacityAssignor CooperativeStickyAssignor RangeAssignor RoundRobinAssignor StickyAssignor TasksAssignor "
        "assignor"
    ),
    "kohort.client": (
        "Admin AssignmentFailed Batch BrokerUnreachable ClientStopped CommitFailed Consumer CooperativeProtocol "
        "DeserializationFailed EagerProtocol GroupMember JsonCodec MemberMetadata OffsetAndMetadata "
        "PartitionErrors Producer ProducerFenced RebalanceListener RecordMetadata Sasl "
        "SubscriptionPattern TransactionAbortable TransactionAborted TransactionError TransactionFatal "
        "TransactionRetriable UnknownPartition UnknownTopic share_evenly"
    ),
    "kohort.model.errors": "ErrorCode KafkaError",
    "kohort.model.ids": "TopicPartition",
    "kohort.sim": "sim",
    "kohort.wire.record_batches": "CorruptBatch Record",
}

__all__ = [
    "Admin",
    "AssignmentFailed",
    "Batch",
    "BrokerUnreachable",
    "CapacityAssignor",
    "ClientStopped",
    "CommitFailed",
    "Consumer",
    "CooperativeProtocol",
    "CooperativeStickyAssignor",
    "CorruptBatch",
    "DeserializationFailed",
    "EagerProtocol",
    "ErrorCode",
    "GroupMember",
    "JsonCodec",
    "KafkaError",
    "MemberMetadata",
    "OffsetAndMetadata",
    "PartitionErrors",
    "Producer",
    "ProducerFenced",
    "RangeAssignor",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "RoundRobinAssignor",
    "Sasl",
    "StickyAssignor",
    "SubscriptionPattern",
    "TasksAssignor",
    "TopicPartition",
    "TransactionAbortable",
    "TransactionAborted",
    "TransactionError",
    "TransactionFatal",
    "TransactionRetriable",
    "UnknownPartition",
    "UnknownTopic",
    "__version__",
    "assignor",
    "share_evenly",
]

__getattr__ = lazy_exports(__name__, _NAMES_IN)


def __dir__() -> list[str]:
    return sorted(__all__)
