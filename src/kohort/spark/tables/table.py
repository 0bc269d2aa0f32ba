"""What a table does for `exactly_once`: it adds rows and moves offsets in one atomic step, and compares them first.

The law: a table's offset of a partition only moves from where a step expects it to where it stops, in the same atomic
step as the rows between. So each offset is in the table once, whichever members write, and however many at once: of a
member that was away for too long and the new owner of its partitions, one is refused, and reads on from the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kohort.client.errors import CommitFailed
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Offsets = dict[TopicPartition, int]
"""By partition, the first offset that a table has no row of."""


class Step(NamedTuple):
    """Rows of one partition below the offset `stop`; `expected` is what the table holds before (None: nothing)."""

    expected: int | None
    stop: int


class Fenced(CommitFailed):
    """A table refused rows: it has another offset of their partition by now, since another member wrote them.

    `offset` is what the table holds.
    """

    def __init__(self, table: str, group: str, partition: TopicPartition, offset: int | None, step: Step) -> None:
        self.partition = partition
        self.offset = offset
        super().__init__(
            ErrorCode.ILLEGAL_GENERATION,
            (-1, ""),
            f"{table} refuses rows of group {group}: {partition} is at offset {offset} there, and they follow offset"
            f" {step.expected}. None of them is in the table; its rows are read again from its offset on",
        )


class TableBroken(Exception):
    """A table cannot be read or written as it is; the text names the table, and says why and what to do."""


class SchemaMismatch(TableBroken):
    """Rows do not have the columns of the table."""


class Table(Protocol):
    """Rows, and for each group and partition the first offset that has no row yet."""

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offsets of these partitions, as they are now, without those that have none. Raises TableBroken."""
        ...

    def append(self, frame: DataFrame, group: str, steps: Mapping[TopicPartition, Step]) -> None:
        """Add a frame's rows and take the steps, all or nothing. Raises Fenced, SchemaMismatch, TableBroken."""
        ...


def check_steps(
    table: str, group: str, found: Mapping[TopicPartition, int], steps: Mapping[TopicPartition, Step]
) -> None:
    """Compare what a table holds with what steps expect. Raises Fenced."""
    for partition, step in sorted(steps.items()):
        if (offset := found.get(partition)) != step.expected:
            raise Fenced(table, group, partition, offset, step)


def most_rows(steps: Mapping[TopicPartition, Step]) -> int:
    """Return how many rows steps have at most, an offset for each."""
    return sum(step.stop - (step.expected or 0) for step in steps.values())


def are_taken(found: Mapping[TopicPartition, int], steps: Mapping[TopicPartition, Step]) -> bool:
    """Whether a table has the rows of all steps, after an attempt whose outcome is not known.

    A step beyond was taken by a writer that has stored these rows, and only one writer has.
    """
    return all(found.get(partition, -1) >= step.stop for partition, step in steps.items())


def reason_of(error: object) -> str:
    """Return what an error of the library says first, and what the storage answered, in one line."""
    first, *causes = (each.strip() for each in re.sub(r"\x1b\[\d+m", "", str(error)).split("↳"))
    fault = first.partition("\n")[0].removeprefix("Kernel error -> ")
    if not causes:
        return fault or type(error).__name__
    answer = re.search("<Message>(.+?)</Message>", causes[-1])
    return f"{fault}: {answer[1] if answer else causes[-1]}"
