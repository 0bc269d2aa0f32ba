"""What is expected of a change, as values that turn into tables and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kohort.assign.quality import pairwise_difference
from kohort.model.ids import TopicPartition


class UnreadInterval(NamedTuple):
    """A time in which a partition was not read, in microseconds of virtual time."""

    partition: TopicPartition
    from_us: int
    until_us: int

    @property
    def duration_s(self) -> float:
        """How long it was."""
        return (self.until_us - self.from_us) / 1_000_000


class ReadInterval(NamedTuple):
    """A time in which a member read a partition, in microseconds of virtual time."""

    partition: TopicPartition
    reader: str
    from_us: int
    until_us: int


class PartitionReaders:
    """Which member reads which partition when, as members know it: records pile up in what is not read.

    A partition is read from the end of its `assigned` callback to the beginning of `revoked` or `lost`, or to the end
    of its process. That is less than its member *owns* in the coordinator: a dead member owns until its session ends.
    """

    def __init__(self) -> None:
        self.unread: list[UnreadInterval] = []
        self.read: list[ReadInterval] = []
        """What is over."""
        self._readers: dict[TopicPartition, dict[tuple[str, int], int]] = {}
        """Since when each member reads a partition, by its name and number."""
        self._since_us: dict[TopicPartition, int] = {}

    def add(self, partitions: Iterable[TopicPartition], now_us: int) -> None:
        """Add partitions, which no member reads yet."""
        for partition in partitions:
            if partition not in self._readers:
                self._readers[partition] = {}
                self._since_us[partition] = now_us

    def start(self, partitions: Iterable[TopicPartition], reader: tuple[str, int], now_us: int) -> None:
        """A member begins to read partitions."""
        for partition in partitions:
            self._readers.setdefault(partition, {})[reader] = now_us
            since_us = self._since_us.pop(partition, None)
            if since_us is not None and since_us < now_us:
                self.unread.append(UnreadInterval(partition, since_us, now_us))

    def stop(self, partitions: Iterable[TopicPartition], reader: tuple[str, int], now_us: int) -> None:
        """A member stops reading partitions."""
        for partition in partitions:
            since_us = self._readers[partition].pop(reader, now_us)
            self.read.append(ReadInterval(partition, reader[0], since_us, now_us))
            if not self._readers[partition]:
                self._since_us[partition] = now_us

    def all_unread(self, from_us: int, until_us: int) -> list[UnreadInterval]:
        """Return what was not read between two moments, cut off there."""
        current = [UnreadInterval(each, since_us, until_us) for each, since_us in sorted(self._since_us.items())]
        return [
            UnreadInterval(each.partition, max(from_us, each.from_us), min(until_us, each.until_us))
            for each in [*self.unread, *current]
            if max(from_us, each.from_us) < min(until_us, each.until_us)
        ]

    def all_read(self, from_us: int, until_us: int) -> list[ReadInterval]:
        """Return which member read what between two moments, cut off there."""
        current = [
            ReadInterval(partition, name, since_us, until_us)
            for partition, readers in self._readers.items()
            for (name, _), since_us in readers.items()
        ]
        return [
            each._replace(from_us=max(from_us, each.from_us), until_us=min(until_us, each.until_us))
            for each in sorted([*self.read, *current])
            if max(from_us, each.from_us) < min(until_us, each.until_us)
        ]


class Balance(NamedTuple):
    """How many partitions members have. `score` is Kafka's: 0 is perfectly even."""

    members: int
    partitions: int
    least: int
    most: int
    score: int


def balance_of(counts: Iterable[int]) -> Balance:
    """Return the balance of members with so many partitions each."""
    shares = list(counts)
    score = round(pairwise_difference(shares))
    return Balance(len(shares), sum(shares), min(shares, default=0), max(shares, default=0), score)


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
    """As the coordinator and `kohort explain` count them."""
    before: Balance
    after: Balance
    began_us: int
    unread: tuple[UnreadInterval, ...]
    growth: Growth | None
    failures: tuple[str, ...] = ()
    read: tuple[ReadInterval, ...] = ()
    """Which member read what, from some time before the change until it is over."""

    @property
    def unread_partition_s(self) -> float:
        """The sum, over partitions, of the seconds in which they were not read."""
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


def growth_of(unread: Iterable[UnreadInterval], rates: Mapping[TopicPartition, float] | None) -> Growth | None:
    """Return what piles up while partitions are not read, None where the rates are not known."""
    if rates is None:
        return None
    piles = [(each.duration_s * rates.get(each.partition, 0.0), each.partition) for each in unread]
    worst = max(piles, default=None)
    if worst is None or not worst[0]:
        return Growth(0.0, None, 0.0)
    return Growth(sum(records for records, _ in piles), worst[1], worst[0])
