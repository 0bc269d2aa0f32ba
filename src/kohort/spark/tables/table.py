"""What a table does for `exactly_once`: claims, offsets and rows of a partition change by three fenced steps.

The law: a table's offset only moves from where a step starts to where it stops, in the same atomic step as the rows
between. So each offset is in the table once, whichever member writes. A new owner claims a partition in its generation;
from then on the table refuses the former owner. `claim`, `place` and `append` of one table happen one after the other,
whichever processes they come from. The functions are pure; every table runs them, and tests play all interleavings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kohort.client.errors import CommitFailed
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Claim(NamedTuple):
    """The member that may add a partition's rows, and the generation or epoch in which it was assigned."""

    generation: int
    owner: str


UNCLAIMED = Claim(-1, "")
"""The claim of a partition that no member has claimed yet."""


class Held(NamedTuple):
    """The state of a partition in a table: the first offset that it has no row of (None: no rows), and its claim."""

    offset: int | None = None
    claim: Claim = UNCLAIMED


Holdings = dict[TopicPartition, Held]

Change = Callable[[TopicPartition, Held], Held]
"""What happens to one partition: `claim`, `place` or `advance` with their other arguments."""


class Step(NamedTuple):
    """Rows of one partition: those from `start` (the offset that the table holds; None: none yet) up to `stop`.

    Without a claim only the offsets are compared, which suffices to store each row once.
    """

    start: int | None
    stop: int
    claim: Claim | None = None


class Fenced(CommitFailed):
    """A table refused a step or a claim: another member owns the partition, or has advanced its offset.

    `held` is the state of the partition in the table.
    """

    def __init__(self, partition: TopicPartition, held: Held, shown: Claim | None, what: str) -> None:
        self.partition = partition
        self.held = held
        generation, owner = identity = shown or UNCLAIMED
        theirs = f"generation {held.claim.generation} of member {held.claim.owner or '(none)'}"
        super().__init__(
            ErrorCode.ILLEGAL_GENERATION,
            identity,
            f"the table refuses {what} of {partition} by member {owner or '(none)'} in generation {generation}:"
            f" it is at offset {held.offset} in {theirs}."
            " No row of the round is in the table; the owner of the partition reads them again",
        )


class Superseded(Fenced):
    """A claim has a lower generation than the table has seen.

    Either the member was fenced, or its group was deleted and starts its generations again: the group knows which.
    """


def claim(partition: TopicPartition, held: Held, wanted: Claim, *, is_renewed: bool = False) -> Held:
    """Return the partition claimed by `wanted`. Raises Superseded for a lower generation than the one held.

    With `is_renewed` the group has confirmed the lower generation: it was deleted and starts them again.
    """
    if wanted.generation < held.claim.generation and not is_renewed:
        raise Superseded(partition, held, wanted, "a claim")
    return Held(held.offset, wanted)


def place(partition: TopicPartition, held: Held, owner: Claim, offset: int) -> Held:
    """Return the partition moved to `offset` without rows, as a reset policy chose. Raises Fenced."""
    if held.claim != owner:
        raise Fenced(partition, held, owner, "a new offset")
    return Held(offset, held.claim)


def advance(partition: TopicPartition, held: Held, step: Step) -> Held:
    """Return the partition after a step whose rows are added with it. Raises Fenced."""
    assert step.stop >= (step.start or 0), "a step goes forward"
    if step.claim is not None and held.claim != step.claim:
        raise Fenced(partition, held, step.claim, f"rows up to offset {step.stop}")
    if held.offset != step.start:
        raise Fenced(partition, held, step.claim, f"rows of offsets {step.start} to {step.stop}")
    return Held(step.stop, held.claim)


def advanced(held: Mapping[TopicPartition, Held], steps: Mapping[TopicPartition, Step]) -> Holdings:
    """Return the partitions of steps after them. Raises Fenced."""
    return {each: advance(each, held.get(each, Held()), step) for each, step in steps.items()}


class TableBroken(Exception):
    """A table cannot be read or written as it is; the text states the reason and what to do."""


class SchemaMismatch(TableBroken):
    """Rows do not have the columns of the table."""


class Table(Protocol):
    """Rows, and for each group and partition the first offset that has no row yet."""

    def held(self, group: str) -> Holdings:
        """Return what the table holds of a group's partitions, as it is now."""
        ...

    def claim(
        self, group: str, wanted: Claim, partitions: Iterable[TopicPartition], *, is_renewed: bool = False
    ) -> Holdings:
        """Claim partitions, all or none, and return them as they are from now on. Raises Superseded."""
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
