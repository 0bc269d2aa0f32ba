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
        CommitFailed,
        Consumer,
        OffsetAndMetadata,
        Producer,
        RebalanceListener,
        RecordMetadata,
        SubscriptionPattern,
    )
    from kohort.model.errors import ErrorCode, KafkaError
    from kohort.model.ids import TopicPartition

# Imported when first asked for: `import kohort` costs nothing, and a broker does not load the client.
_HOME_OF = {
    "Admin": "kohort.client",
    "AssignmentFailed": "kohort.client",
    "Batch": "kohort.client",
    "CapacityAssignor": "kohort.assign",
    "CommitFailed": "kohort.client",
    "Consumer": "kohort.client",
    "CooperativeStickyAssignor": "kohort.assign",
    "ErrorCode": "kohort.model.errors",
    "KafkaError": "kohort.model.errors",
    "OffsetAndMetadata": "kohort.client",
    "Producer": "kohort.client",
    "RangeAssignor": "kohort.assign",
    "RebalanceListener": "kohort.client",
    "RecordMetadata": "kohort.client",
    "RoundRobinAssignor": "kohort.assign",
    "StickyAssignor": "kohort.assign",
    "SubscriptionPattern": "kohort.client",
    "TopicPartition": "kohort.model.ids",
    "assignor": "kohort.assign",
    "sim": "kohort.sim",
}

__all__ = [
    "Admin",
    "AssignmentFailed",
    "Batch",
    "CapacityAssignor",
    "CommitFailed",
    "Consumer",
    "CooperativeStickyAssignor",
    "ErrorCode",
    "KafkaError",
    "OffsetAndMetadata",
    "Producer",
    "RangeAssignor",
    "RebalanceListener",
    "RecordMetadata",
    "RoundRobinAssignor",
    "StickyAssignor",
    "SubscriptionPattern",
    "TopicPartition",
    "__version__",
    "assignor",
]

__getattr__ = lazy_exports(__name__, _HOME_OF)


def __dir__() -> list[str]:
    return sorted(__all__)
