"""What a table does for `exactly_once`: it adds rows and moves offsets in one atomic step, and compares them first.

The law: a table's offset of a partition only moves from where a step expects it to where it stops, in the same atomic
step as the rows between. So each offset is in the table once, whichever members write, and however many at once: of a
member that was away for too long and the new owner of its partitions, one is refused, and reads on from the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kohort.client.errors import CommitFailed
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Position(NamedTuple):
    """Where the rows of a partition end in a table: the first offset that has no row there.

    `topic_id` is the id of the topic that the rows are of, as Kafka's tools show it, or as much of its beginning as the
    table stores. None: not known, as in tables that a version without ids has written.
    """

    offset: int
    topic_id: str | None = None


class OffsetStep(NamedTuple):
    """Rows of one partition that end at `stop`; `expected` is what the table has before (None: nothing)."""

    expected: Position | None
    stop: Position


Positions = dict[TopicPartition, Position]

BATCHES = "batches/of:"
"""How the name of a topic begins whose "offsets" are the numbers of a streaming query's micro-batches.

No topic of Kafka has a name with "/" or ":".
"""

DELETIONS = "__deleted"
"""The suffix of the table that has the keys and orders of deletions."""

PAUSES_S = (0.2, 1.5)
"""Seconds before storage or a server that failed is tried again: one may be cut off, or start at this moment."""


class TableBroken(Exception):
    """A table cannot be read or written as it is; the text names the table, the cause and what to do."""


class SchemaMismatch(TableBroken):
    """Rows do not have the columns of the table."""


class OtherTopic(TableBroken):
    """A table has rows of another topic of this name, or of another query: what it stored are other rows."""

    @classmethod
    def of(cls, table: str, group: str, partition: TopicPartition, found: Position, now: str | None) -> OtherTopic:
        """Return the error of a table whose position is of another topic or query than `now`, the id of this one."""
        if is_of_batches(partition):
            return cls(
                f"{table} has batches up to {found.offset - 1} of group {group}, of the query with the id"
                f" {found.topic_id}, and this query's id is {now}: two queries store under one name, or the checkpoint"
                f" was deleted. Give this query a group of its own; its batches are counted from 0, so it stores what"
                " it reads again"
            )
        return cls(
            f"{table} has offset {found.offset} of {partition} for group {group}, of the topic with the id"
            f" {found.topic_id}, and the topic's id is {now}: it was created again, or this is another cluster. Read it"
            " as another group, or set the table's offsets (set_offsets)"
        )


class Fenced(CommitFailed):
    """A table refused rows: it has another offset of their partition by now, since another member wrote them.

    `position` is what the table has.
    """

    def __init__(
        self, table: str, group: str, partition: TopicPartition, position: Position | None, step: OffsetStep
    ) -> None:
        self.partition = partition
        self.position = position
        found, expected = (None if each is None else each.offset for each in (position, step.expected))
        super().__init__(
            ErrorCode.ILLEGAL_GENERATION,
            (-1, ""),
            f"{table} refuses rows of group {group}: {partition} is at offset {found} there, and they follow offset"
            f" {expected}. None of them is in the table; its rows are read again from its offset on",
        )


class Table(Protocol):
    """Rows, and for each group and partition the position up to which it has them.

    Where a table has an attribute `rows_in_arrow`, a number, `append` gets a `pyarrow.Table` instead of a frame for
    rounds of at most so many offsets that are stored as they are, and what a function of Arrow made.
    """

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """Return the positions of these partitions, as they are now, without those that have none.

        Raises TableBroken.
        """

    def append(self, frame: DataFrame, group: str, steps: Mapping[TopicPartition, OffsetStep]) -> None:
        """Add a frame's rows and take the steps, all or nothing. Raises Fenced, SchemaMismatch, TableBroken."""


def is_of_batches(partition: TopicPartition) -> bool:
    """Whether the "offset" of a partition is the number of a streaming query's next micro-batch."""
    return partition.topic.startswith(BATCHES)


def is_same_topic(one: str | None, other: str | None) -> bool:
    """Whether two ids may be of one topic: one is not known, or begins as the other."""
    return one is None or other is None or one.startswith(other) or other.startswith(one)


def check_steps(
    table: str, group: str, found: Mapping[TopicPartition, Position], steps: Mapping[TopicPartition, OffsetStep]
) -> None:
    """Compare what a table has with what steps expect. Raises Fenced, and OtherTopic for rows of another topic."""
    for partition, step in sorted(steps.items()):
        position = found.get(partition)
        if position is not None and not is_same_topic(position.topic_id, step.stop.topic_id):
            raise OtherTopic.of(table, group, partition, position, step.stop.topic_id)
        if (position and position.offset) != (step.expected and step.expected.offset):
            raise Fenced(table, group, partition, position, step)


def positions_at(offsets: Mapping[TopicPartition, int]) -> Positions:
    """Return positions whose topics are not known."""
    return {each: Position(offset) for each, offset in offsets.items()}


def most_rows(steps: Mapping[TopicPartition, OffsetStep]) -> float:
    """Return how many rows steps have at most, an offset for each; of a micro-batch it is not known."""
    if any(map(is_of_batches, steps)):
        return inf
    return sum(step.stop.offset - (step.expected.offset if step.expected else 0) for step in steps.values())


def are_taken(found: Mapping[TopicPartition, Position], steps: Mapping[TopicPartition, OffsetStep]) -> bool:
    """Whether a table has the rows of all steps, after an attempt whose outcome is not known.

    A step beyond was taken by a writer that has stored these rows, and only one writer has.
    """
    return all(
        each in found
        and found[each].offset >= step.stop.offset
        and is_same_topic(found[each].topic_id, step.stop.topic_id)
        for each, step in steps.items()
    )


def reason_of(error: object) -> str:
    """Return the first line of an error of the library, and what the storage answered, in one line."""
    first, *causes = (each.strip() for each in re.sub(r"\x1b\[\d+m", "", str(error)).split("↳"))
    fault = first.partition("\n")[0].removeprefix("Kernel error -> ")
    if place := re.findall(r"^(?:DETAIL|CONTEXT): +(.+)", first, re.MULTILINE):  # of PostgreSQL: the row and the column
        fault += f" ({'; '.join(place)})"
    if not causes:
        return fault or type(error).__name__
    answer = re.search("<Message>(.+?)</Message>", causes[-1])
    return f"{fault}: {answer[1] if answer else causes[-1]}"


@contextmanager
def broken_in_tasks() -> Iterator[None]:
    """Raise a TableBroken of a task as what it is: Spark has it in an error of its own, between two tracebacks."""
    try:
        yield
    except Exception as error:
        _, is_ours, text = str(error).partition(f"{TableBroken.__name__}: ")
        if is_ours:
            raise TableBroken(text.partition("\n")[0]) from error
        raise


@contextmanager
def in_a_sentence(
    table: str, what: str, advice: str, errors: tuple[type[Exception], ...], unless: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Raise `errors` of libraries and storage as a TableBroken that names the table, and advises what to do."""
    try:
        yield
    except (Fenced, TableBroken):
        raise
    except unless:
        raise
    except errors as error:
        raise TableBroken(f"{table} {what}: {reason_of(error)}. {advice}") from error


def spans_in(steps: Mapping[TopicPartition, OffsetStep]) -> str:
    """Return which rows steps are; of many partitions the first."""
    shown = [
        f"{each} from {step.expected.offset if step.expected else 0} to {step.stop.offset}"
        for each, step in sorted(steps.items())[:3]
    ]
    return ", ".join(shown) + (f" and {len(steps) - 3} partitions more" if len(steps) > 3 else "")
