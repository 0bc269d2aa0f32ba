"""What a consumer measures beside its membership: what it reads, and how far behind it is.

`CONSUMER_METRICS` is everything that `Consumer.metrics()` returns, the membership's included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import nan

from kohort.client.consumer.partition_state import TrackedPartition
from kohort.client.errors import CommitFailed, PartitionErrors
from kohort.member.rebalance_metrics import MEMBER_METRICS, Kind, Metric, RebalanceMetrics
from kohort.model.ids import TopicPartition

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


def lags(tracked: Mapping[TopicPartition, TrackedPartition]) -> dict[TopicPartition, int]:
    """Return how far each partition is behind, where a fetch has shown its end."""
    return {
        entry.partition: max(0, entry.high_watermark - entry.position)
        for entry in list(tracked.values())  # one step, so that another thread may ask
        if entry.high_watermark is not None and entry.position is not None
    }


def lag_numbers(tracked: Mapping[TopicPartition, TrackedPartition]) -> dict[str, float]:
    """Return the metrics that partitions give."""
    return {"assigned-partitions": len(tracked), "records-lag-max": max(lags(tracked).values(), default=nan)}


@contextmanager
def measured(metrics: RebalanceMetrics, *, is_asked: bool) -> Iterator[None]:
    """Measure the commit inside, if it asks for anything and the group answers, be it with a refusal."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    is_answered = is_asked
    try:
        yield
    except (CommitFailed, PartitionErrors):
        raise
    except BaseException:
        is_answered = False
        raise
    finally:
        if is_answered:
            now_s = loop.time()
            metrics.commit_answered(round((now_s - began_s) * 1000), int(now_s * 1000))
