"""PySpark as a member of a group: `GroupStream`, the source it reads with, and the session that needs no set-up.

Names are loaded on first use, so that importing this package starts neither Java nor Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.model.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.schemas.registry import RegistryUnavailable as RegistryUnavailable
    from kohort.schemas.registry import SchemaUnknown as SchemaUnknown
    from kohort.spark.group_stream import GroupStream as GroupStream
    from kohort.spark.into_table import ExactlyOnce as ExactlyOnce
    from kohort.spark.into_table import exactly_once as exactly_once
    from kohort.spark.into_table import for_each_batch as for_each_batch
    from kohort.spark.into_table import in_one_step as in_one_step
    from kohort.spark.java import JavaMissing as JavaMissing
    from kohort.spark.membership.group_progress import GroupProgress as GroupProgress
    from kohort.spark.membership.group_progress import progress as progress
    from kohort.spark.membership.group_progress import read_lag as read_lag
    from kohort.spark.rows.rounds import OffsetRange as OffsetRange
    from kohort.spark.rows.rounds import Round as Round
    from kohort.spark.running_session import QueryFailed as QueryFailed
    from kohort.spark.running_session import await_termination as await_termination
    from kohort.spark.schemas.bad_record import Reason as Reason
    from kohort.spark.schemas.bad_record import dead_letters as dead_letters
    from kohort.spark.schemas.decoded_column import decode as decode
    from kohort.spark.source.data_source import register as register
    from kohort.spark.spark_session import SparkMissing as SparkMissing
    from kohort.spark.spark_session import build as build
    from kohort.spark.tables import DeltaLakeTable as DeltaLakeTable
    from kohort.spark.tables import Fenced as Fenced
    from kohort.spark.tables import IcebergTable as IcebergTable
    from kohort.spark.tables import OffsetStep as OffsetStep
    from kohort.spark.tables import Position as Position
    from kohort.spark.tables import PostgresTable as PostgresTable
    from kohort.spark.tables import SchemaMismatch as SchemaMismatch
    from kohort.spark.tables import Table as Table
    from kohort.spark.tables import TableBroken as TableBroken
    from kohort.spark.tables import check_steps as check_steps
    from kohort.spark.transactional_topic import TransactionalTopic as TransactionalTopic

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "kohort.spark.group_stream": "GroupStream",
        "kohort.spark.into_table": "ExactlyOnce exactly_once for_each_batch in_one_step",
        "kohort.spark.java": "JavaMissing",
        "kohort.spark.membership.group_progress": "GroupProgress progress read_lag",
        "kohort.spark.rows.rounds": "OffsetRange Round",
        "kohort.spark.running_session": "QueryFailed await_termination",
        "kohort.spark.schemas.bad_record": "Reason dead_letters",
        "kohort.spark.schemas.decoded_column": "decode",
        "kohort.schemas.registry": "RegistryUnavailable SchemaUnknown",
        "kohort.spark.source.data_source": "register",
        "kohort.spark.spark_session": "SparkMissing build",
        "kohort.spark.tables": (
            "DeltaLakeTable Fenced IcebergTable OffsetStep Position PostgresTable SchemaMismatch Table TableBroken "
            "check_steps"
        ),
        "kohort.spark.transactional_topic": "TransactionalTopic",
    },
)
