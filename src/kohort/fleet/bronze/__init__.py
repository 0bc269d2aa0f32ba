"""Bronze: `__consumer_offsets` as decoded by Spark's executors, and how a run stores it."""

from kohort.fleet.bronze.bronze_reader import (
    PlannedRead,
    ends,
    metrics,
    plan,
    quarantine,
    read,
    records,
    settled,
    state_changes,
    topics,
)

__all__ = [
    "PlannedRead",
    "ends",
    "metrics",
    "plan",
    "quarantine",
    "read",
    "records",
    "settled",
    "state_changes",
    "topics",
]
