"""Bronze layer: `__consumer_offsets` decoded by Spark's executors.

`bronze_reader` plans and decodes, `bronze_writer` stores.
"""

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
