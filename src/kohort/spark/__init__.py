"""PySpark as a member of a group: `GroupStream`, the source it reads with, and the session that needs no set-up.

Names are loaded on first use, so that importing this package starts neither Java nor Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.spark.group_stream import GroupStream
    from kohort.spark.into_table import exactly_once, for_each_batch
    from kohort.spark.java import JavaMissing
    from kohort.spark.membership.group_progress import GroupProgress, progress
    from kohort.spark.query_failure import QueryFailed, await_termination
    from kohort.spark.rows.rounds import OffsetRange, Round
    from kohort.spark.schemas.bad_record import Reason, dead_letters
    from kohort.spark.schemas.decoded_column import decode
    from kohort.spark.schemas.registry import RegistryUnavailable, SchemaUnknown
    from kohort.spark.source.data_source import register
    from kohort.spark.spark_session import SparkMissing, build
    from kohort.spark.transactional_topic import TransactionalTopic

__all__ = [
    "GroupProgress",
    "GroupStream",
    "JavaMissing",
    "OffsetRange",
    "QueryFailed",
    "Reason",
    "RegistryUnavailable",
    "Round",
    "SchemaUnknown",
    "SparkMissing",
    "TransactionalTopic",
    "await_termination",
    "build",
    "dead_letters",
    "decode",
    "exactly_once",
    "for_each_batch",
    "progress",
    "register",
]

_NAMES_IN = {
    "kohort.spark.group_stream": "GroupStream",
    "kohort.spark.into_table": "exactly_once for_each_batch",
    "kohort.spark.java": "JavaMissing",
    "kohort.spark.membership.group_progress": "GroupProgress progress",
    "kohort.spark.query_failure": "QueryFailed await_termination",
    "kohort.spark.rows.rounds": "OffsetRange Round",
    "kohort.spark.schemas.bad_record": "Reason dead_letters",
    "kohort.spark.schemas.decoded_column": "decode",
    "kohort.spark.schemas.registry": "RegistryUnavailable SchemaUnknown",
    "kohort.spark.source.data_source": "register",
    "kohort.spark.spark_session": "SparkMissing build",
    "kohort.spark.transactional_topic": "TransactionalTopic",
}

__getattr__ = lazy_exports(__name__, _NAMES_IN)
