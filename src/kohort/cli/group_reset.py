"""Where `kohort groups reset-offsets` would put a group: the plan, computed before anything is written.

A plan never leaves the log: an offset before the first record or after the last is moved to the nearest
end, and the plan says so. It knows nothing of clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from kohort.model.ids import TopicPartition


class Rule(Enum):
    """Which offset a reset aims at; the value is the option that asks for it."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    OFFSET = "--to-offset"
    TIME = "--to-datetime"
    SHIFT = "--shift-by"


class Move(NamedTuple):
    """One partition's step of a plan. `committed` is None where nothing was; `bounded` is true at a log's end."""

    partition: TopicPartition
    committed: int | None
    offset: int
    bounded: bool


class Reach(NamedTuple):
    """How far a partition's log reaches: its first offset and the one after its last."""

    earliest: int
    latest: int


class NothingToShift(ValueError):
    """A shift needs a committed offset to start from; the text names the partition."""


def plan(
    rule: Rule,
    number: int,
    reaches: Mapping[TopicPartition, Reach],
    committed: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int | None],
) -> list[Move]:
    """Return a move for each partition of `reaches`, sorted.

    `number` is the offset of OFFSET or the distance of SHIFT. `at_time` has, for TIME, the first offset at or
    after the time, or None where every record is older. Raises NothingToShift.
    """
    return [
        aimed(partition, target(rule, number, partition, reach, committed, at_time), reach, committed.get(partition))
        for partition, reach in sorted(reaches.items())
    ]


def target(
    rule: Rule,
    number: int,
    partition: TopicPartition,
    reach: Reach,
    committed: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int | None],
) -> int:
    """Return the offset that a rule asks for, inside the log or not."""
    match rule:
        case Rule.EARLIEST:
            return reach.earliest
        case Rule.LATEST:
            return reach.latest
        case Rule.OFFSET:
            return number
        case Rule.TIME:
            found = at_time.get(partition)
            return reach.latest if found is None else found
        case Rule.SHIFT:
            if partition not in committed:
                raise NothingToShift(f"{partition} has no committed offset to shift: use --to-offset or --to-earliest")
            return committed[partition] + number


def aimed(partition: TopicPartition, offset: int, reach: Reach, committed: int | None) -> Move:
    """Return the move to an offset, kept inside the log."""
    inside = min(max(offset, reach.earliest), reach.latest)
    return Move(partition, committed, inside, inside != offset)


def changes(moves: Iterable[Move]) -> list[Move]:
    """Return the moves that would change a committed offset."""
    return [move for move in moves if move.offset != move.committed]
