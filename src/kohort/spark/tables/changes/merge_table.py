"""What a table does besides storing rows so that `exactly_once(table, merge_on=…)` may change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kohort.model.ids import TopicPartition
from kohort.spark.tables.changes.row_change import Change
from kohort.spark.tables.table import Step, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class MergeTable(Table, Protocol):
    """A table whose rows have keys."""

    def merge(self, frame: DataFrame, group: str, steps: Mapping[TopicPartition, Step], change: Change) -> None:
        """Change rows by `change.collect(frame)` and take the steps, all or nothing.

        Raises Fenced, SchemaMismatch, TableBroken, BadChange, ValueError.
        """
        ...
