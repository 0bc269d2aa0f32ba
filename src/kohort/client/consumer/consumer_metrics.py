"""What a consumer measures beside its membership: how much it reads, and how far behind it is.

`CONSUMER_METRICS` is everything that `Consumer.metrics()` returns, the membership's included.
"""

from __future__ import annotations

from math import nan

from kohort.client.consumer.partition_state import PartitionTable
from kohort.member.rebalance_metrics import MEMBER_METRICS, Kind, Metric

CONSUMER_METRICS = (
    *MEMBER_METRICS,
    Metric("assigned-partitions", Kind.GAUGE, "count", "Kafka", "How many partitions this consumer reads now."),
    Metric(
        "records-lag-max",
        Kind.GAUGE,
        "count",
        "Kafka",
        "How many offsets the partition that is furthest behind is behind.",
    ),
)


def partition_metrics(partitions: PartitionTable) -> dict[str, float]:
    """Return the metrics of the partitions that a consumer reads."""
    behind = max(partitions.lags().values(), default=nan)
    return {"assigned-partitions": len(partitions), "records-lag-max": behind}
