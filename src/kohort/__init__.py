"""kohort: Kafka's consumer-group system in Python."""

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
        DeserializationFailed,
        OffsetAndMetadata,
        PartitionErrors,
        Producer,
        RebalanceListener,
        RecordMetadata,
        Sasl,
        SubscriptionPattern,
        UnknownPartition,
        UnknownTopic,
    )
    from kohort.model.errors import ErrorCode, KafkaError
    from kohort.model.ids import TopicPartition
    from kohort.wire.record_batches import CorruptBatch, Record

# Imported when first asked for: `import kohort` costs nothing, and a broker does not load the client.
_HOME_OF = {
    "Admin": "kohort.client",
    "AssignmentFailed": "kohort.client",
    "Batch": "kohort.client",
    "BrokerUnreachable": "kohort.client",
    "CapacityAssignor": "kohort.assign",
    "ClientStopped": "kohort.client",
    "CommitFailed": "kohort.client",
    "Consumer": "kohort.client",
    "CooperativeStickyAssignor": "kohort.assign",
    "CorruptBatch": "kohort.wire.record_batches",
    "DeserializationFailed": "kohort.client",
    "ErrorCode": "kohort.model.errors",
    "KafkaError": "kohort.model.errors",
    "OffsetAndMetadata": "kohort.client",
    "PartitionErrors": "kohort.client",
    "Producer": "kohort.client",
    "RangeAssignor": "kohort.assign",
    "RebalanceListener": "kohort.client",
    "Record": "kohort.wire.record_batches",
    "RecordMetadata": "kohort.client",
    "RoundRobinAssignor": "kohort.assign",
    "Sasl": "kohort.client",
    "StickyAssignor": "kohort.assign",
    "SubscriptionPattern": "kohort.client",
    "TopicPartition": "kohort.model.ids",
    "UnknownPartition": "kohort.client",
    "UnknownTopic": "kohort.client",
    "assignor": "kohort.assign",
    "sim": "kohort.sim",
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
    "CooperativeStickyAssignor",
    "CorruptBatch",
    "DeserializationFailed",
    "ErrorCode",
    "KafkaError",
    "OffsetAndMetadata",
    "PartitionErrors",
    "Producer",
    "RangeAssignor",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "RoundRobinAssignor",
    "Sasl",
    "StickyAssignor",
    "SubscriptionPattern",
    "TopicPartition",
    "UnknownPartition",
    "UnknownTopic",
    "__version__",
    "assignor",
]

__getattr__ = lazy_exports(__name__, _HOME_OF)


def __dir__() -> list[str]:
    return sorted(__all__)
