"""What a table must be able to do for `exactly_once`, and how it says that it cannot.

The law: `append` adds the rows and moves the offsets in one atomic step, or changes nothing; `claim`, `place` and
`append` of one table happen one after the other, whichever processes they come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from kohort.model.ids import TopicPartition
from kohort.spark.tables.fencing import Claim, Held, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TableBroken(Exception):
    """A table cannot be read or written as it is; the text says what is wrong with it and what to do."""


class SchemaMismatch(TableBroken):
    """Rows do not have the columns of the table."""


class Table(Protocol):
    """Rows, and for each group and partition the first offset that has no row yet."""

    def held(self, group: str) -> dict[TopicPartition, Held]:
        """Return what the table holds of a group's partitions, as it is now."""
        ...

    def claim(
        self, group: str, wanted: Claim, partitions: Iterable[TopicPartition], *, is_renewed: bool = False
    ) -> dict[TopicPartition, Held]:
        """Take partitions over, all or none, and return them as they are from now on. Raises Superseded."""
        ...

    def place(self, group: str, owner: Claim, offsets: Mapping[TopicPartition, int]) -> None:
        """Move claimed partitions to offsets without adding rows, all or none. Raises Fenced."""
        ...

    def append(self, frame: DataFrame, group: str, steps: Mapping[TopicPartition, Step]) -> None:
        """Add a frame's rows and take the steps, all or nothing. Raises Fenced, SchemaMismatch, TableBroken."""
        ...

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows that are in the table now; rows that come later are not among them."""
        ...
