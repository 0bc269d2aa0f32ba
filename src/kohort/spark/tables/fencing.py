"""What a table knows of one partition in one group, and the three steps that may change it.

The law: a table's offset only moves from where a step starts to where it stops, in the same atomic step as the rows
between. So each offset is in the table once, whoever writes. Claims are for progress: whoever takes a partition over
claims it in its generation, and from then on an older owner is refused before it can spoil a round.
Pure values and functions; every table runs them, and the tests play all their interleavings.
"""

from __future__ import annotations

from typing import NamedTuple

from kohort.client.errors import CommitFailed
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition


class Claim(NamedTuple):
    """Who may add a partition's rows: a member, in the generation or epoch in which it was given the partition."""

    generation: int
    owner: str


NOBODY = Claim(-1, "")
"""The claim of a partition that no member has claimed yet."""


class Held(NamedTuple):
    """A partition as a table holds it: the first offset that it has no row of (None: it has none), and whose it is."""

    offset: int | None = None
    claim: Claim = NOBODY


class Step(NamedTuple):
    """Rows of one partition: those from `start` (the offset that the table holds; None: none yet) up to `stop`.

    Without a claim only the offsets are compared: that is enough to have each of them once.
    """

    start: int | None
    stop: int
    claim: Claim | None = None


class Fenced(CommitFailed):
    """A table refused a step or a claim: another member has the partition, or has moved its offset on.

    `held` is what the table holds.
    """

    def __init__(self, partition: TopicPartition, held: Held, shown: Claim | None, what: str) -> None:
        self.partition = partition
        self.held = held
        generation, owner = shown or NOBODY
        theirs = f"generation {held.claim.generation} of member {held.claim.owner or '(none)'}"
        super().__init__(
            ErrorCode.ILLEGAL_GENERATION,
            owner,
            generation,
            f"the table refuses {what} of {partition} by member {owner or '(none)'} in generation {generation}:"
            f" it is at offset {held.offset} in {theirs}."
            " No row of the round is in the table; whoever owns the partition reads them again",
        )


class Superseded(Fenced):
    """A claim showed a lower generation than the table has seen.

    Either the member is a late one, or its group was deleted and counts anew; only the group can tell.
    """


def claim(partition: TopicPartition, held: Held, wanted: Claim, *, is_renewed: bool = False) -> Held:
    """Return the partition in the hands of `wanted`. Raises Superseded for a lower generation than the one held.

    With `is_renewed`, the group itself has just said that the lower generation is its own: it counts anew.
    """
    if wanted.generation < held.claim.generation and not is_renewed:
        raise Superseded(partition, held, wanted, "a claim")
    return Held(held.offset, wanted)


def place(partition: TopicPartition, held: Held, owner: Claim, offset: int) -> Held:
    """Return the partition moved to `offset` without rows, as a reset policy says. Raises Fenced if it is another's."""
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
