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
    from kohort.spark.rows.rounds import OffsetRange, Round
    from kohort.spark.source.data_source import register
    from kohort.spark.spark_session import SparkMissing, build

__all__ = [
    "GroupStream",
    "JavaMissing",
    "OffsetRange",
    "Round",
    "SparkMissing",
    "build",
    "exactly_once",
    "for_each_batch",
    "register",
]

_HOMES = {
    "GroupStream": "kohort.spark.group_stream",
    "JavaMissing": "kohort.spark.java",
    "OffsetRange": "kohort.spark.rows.rounds",
    "Round": "kohort.spark.rows.rounds",
    "SparkMissing": "kohort.spark.spark_session",
    "build": "kohort.spark.spark_session",
    "exactly_once": "kohort.spark.into_table",
    "for_each_batch": "kohort.spark.into_table",
    "register": "kohort.spark.source.data_source",
}

__getattr__ = lazy_exports(__name__, _HOMES)
