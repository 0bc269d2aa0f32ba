"""What is expected of a change, as values that turn into tables and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kohort.assign.quality import pairwise_difference
from kohort.model.ids import TopicPartition
from kohort.what_if.reading import Unread


class Balance(NamedTuple):
    """How many partitions members have. `score` is Kafka's: 0 is perfectly even."""

    members: int
    partitions: int
    least: int
    most: int
    score: int

    def __str__(self) -> str:
        span = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
        return f"{self.members} with {span} each" if self.members else "no members"


def balance_of(counts: Iterable[int]) -> Balance:
    """Return the balance of members with so many partitions each."""
    held = list(counts)
    score = round(pairwise_difference(held))
    return Balance(len(held), sum(held), min(held, default=0), max(held, default=0), score)


@dataclass(frozen=True, slots=True)
class Growth:
    """What piles up unread at the measured rate, in records. `worst` is the partition with most of them at a time."""

    records: float
    worst: TopicPartition | None
    worst_records: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a change leads to. `unread` is as members see it, from the beginning of the change, in microseconds."""

    label: str
    is_settled: bool
    duration_ms: int
    rebalances: int
    rounds: int
    """Generations formed, and targets computed."""
    moves: int
    unowned_partition_s: float
    """By the coordinator's books, as `kohort explain` counts."""
    before: Balance
    after: Balance
    began_us: int
    unread: tuple[Unread, ...]
    growth: Growth | None
    failures: tuple[str, ...] = ()

    @property
    def unread_partition_s(self) -> float:
        """For each partition the seconds that nobody read it, added up."""
        return sum(each.duration_s for each in self.unread)

    @property
    def longest_unread_s(self) -> float:
        """The longest time that one partition was not read."""
        return max((each.duration_s for each in self.unread), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """Return the documented fields."""
        growth = self.growth
        return {
            "variant": self.label,
            "is_settled": self.is_settled,
            "duration_s": round(self.duration_ms / 1000, 3),
            "rebalances": self.rebalances,
            "rounds": self.rounds,
            "moves": self.moves,
            "unowned_partition_s": round(self.unowned_partition_s, 3),
            "unread_partition_s": round(self.unread_partition_s, 3),
            "longest_unread_s": round(self.longest_unread_s, 3),
            "lag_growth": None if growth is None else round(growth.records),
            "worst_partition": None if growth is None or growth.worst is None else str(growth.worst),
            "worst_lag_growth": None if growth is None else round(growth.worst_records),
            "before": self.before._asdict(),
            "after": self.after._asdict(),
            "failures": list(self.failures),
        }


def growth_of(unread: Iterable[Unread], rates: Mapping[TopicPartition, float] | None) -> Growth | None:
    """Return what piles up while partitions are not read, None where the rates are not known."""
    if rates is None:
        return None
    piles = [(each.duration_s * rates.get(each.partition, 0.0), each.partition) for each in unread]
    worst = max(piles, default=None)
    if worst is None or not worst[0]:
        return Growth(0.0, None, 0.0)
    return Growth(sum(records for records, _ in piles), worst[1], worst[0])
