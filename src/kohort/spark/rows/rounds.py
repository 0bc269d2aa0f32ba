"""Offset ranges: what a round reads of the owned partitions within a limit, and how it is cut into Spark tasks.

Pure values and arithmetic; it knows neither Spark nor the group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from kohort.model.ids import TopicPartition


class OffsetRange(NamedTuple):
    """The records of one partition with `start` ≤ offset < `stop`."""

    partition: TopicPartition
    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many offsets the range spans; compaction may have left fewer records."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a `GroupStream`: its number from 0, the generation it was read and is committed in, its ranges.

    `topic_ids` are those of its topics, as Kafka's tools show them, where the cluster has ids.
    """

    number: int
    generation: int
    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many offsets the round spans; compaction may have left fewer records."""
        return sum(each.size for each in self.ranges)

    @property
    def next_offsets(self) -> dict[TopicPartition, int]:
        """The offsets that the round's commit writes."""
        return {each.partition: each.stop for each in self.ranges}


def plan(available: Mapping[TopicPartition, tuple[int, int]], most: int) -> tuple[OffsetRange, ...]:
    """Return the ranges of a round of at most `most` offsets out of `available` `(position, end)` per partition.

    Each partition gets a share in proportion to its lag, so that all of them catch up at the same time, and at least
    one offset where `most` suffices: a partition with few records does not wait for one with many.
    """
    lags = {partition: end - position for partition, (position, end) in sorted(available.items()) if end > position}
    shares = _shares(lags, most)
    return tuple(
        OffsetRange(partition, available[partition][0], available[partition][0] + share)
        for partition, share in shares.items()
        if share
    )


def _shares(lags: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    total = sum(lags.values())
    if total <= most:
        return dict(lags)
    least = 1 if min(lags.values()) * most < total and most >= len(lags) else 0
    most, total = most - least * len(lags), total - least * len(lags)
    shares = {partition: (lag - least) * most // total for partition, lag in lags.items()}
    left = most - sum(shares.values())
    # What rounding down leaves goes to the largest remainders; ties follow the order of partitions.
    for partition in sorted(lags, key=lambda each: -((lags[each] - least) * most % total))[:left]:
        shares[partition] += 1
    return {partition: least + share for partition, share in shares.items()}


def pieces(ranges: Sequence[OffsetRange], least: int, smallest: int = 10_000) -> list[OffsetRange]:
    """Return `ranges` cut into at least `least` pieces where that leaves none below `smallest` offsets."""
    total = sum(each.size for each in ranges)
    largest = max(smallest, -(-total // max(least, 1)))
    cut: list[OffsetRange] = []
    for partition, start, stop in ranges:
        count = -(-(stop - start) // largest)
        steps = [start + (stop - start) * step // count for step in range(count + 1)]
        cut += [OffsetRange(partition, low, high) for low, high in pairwise(steps)]
    return cut


def parted(ranges: Iterable[OffsetRange], most: int | None) -> list[OffsetRange]:
    """Return `ranges` cut so that none spans more than `most` offsets, if that is given."""
    return [part for each in ranges for part in pieces([each], -(-each.size // (most or each.size)), smallest=1)]


def tasks(cut: Sequence[OffsetRange], least: int, smallest: int = 10_000) -> list[tuple[OffsetRange, ...]]:
    """Return pieces put together into tasks: `least` of them or more, and one for each `smallest` offsets.

    A task costs more than reading the few new rows of a partition. A task reads a partition once.
    """
    wanted = max(least, -(-sum(each.size for each in cut) // smallest))
    found: list[list[OffsetRange]] = [[] for _ in range(min(wanted, len(cut)))]
    sizes = [0] * len(found)
    for each in sorted(cut, key=lambda each: (-each.size, each)):
        open_to = [
            number for number, task in enumerate(found) if all(other.partition != each.partition for other in task)
        ]
        if not open_to:
            found.append([])
            sizes.append(0)
            open_to = [len(found) - 1]
        number = min(open_to, key=lambda number: sizes[number])
        found[number].append(each)
        sizes[number] += each.size
    return [tuple(sorted(task)) for task in found]


def parts_of_round(ranges: Iterable[OffsetRange], least: int, most: int | None = None) -> list[tuple[OffsetRange, ...]]:
    """Return what each task of a round reads: at least `least` parts, of which none has more than `most` of a range."""
    cut = parted(pieces([each for each in ranges if each.size > 0], least), most)
    return tasks(cut, least)


def ranges_to_json(ranges: Iterable[OffsetRange]) -> str:
    """Return ranges as the text that a Spark option carries."""
    return json.dumps([[each.partition.topic, each.partition.partition, each.start, each.stop] for each in ranges])


def ranges_from_json(text: str) -> list[OffsetRange]:
    """Return the ranges of `ranges_to_json`. Raises ValueError, with an example, for any other text."""
    try:
        found = [
            OffsetRange(TopicPartition(topic, partition), start, stop)
            for topic, partition, start, stop in json.loads(text)
        ]
    except (TypeError, ValueError):
        found = None
    if found is None or any(not _is_valid(each) for each in found):
        raise ValueError('ranges are a JSON list of [topic, partition, start, stop], such as [["flights", 0, 0, 500]]')
    return found


def _is_valid(each: OffsetRange) -> bool:
    numbers = (each.partition.partition, each.start, each.stop)
    return (
        isinstance(each.partition.topic, str)
        and all(type(number) is int for number in numbers)
        and each.partition.partition >= 0
        and 0 <= each.start <= each.stop
    )
