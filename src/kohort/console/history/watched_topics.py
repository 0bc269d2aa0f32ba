"""Logs of partitions over time: where they begin and end, their bytes on disk, and how fast they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kohort.client.cluster.metadata import TopicView
from kohort.model.ids import TopicPartition

PARTITIONS = 50_000
"""Whose last look is stored."""

APART_MS = 1_000
"""Between two looks that give a rate."""

Offsets = Mapping[TopicPartition, int]


class LogLook(NamedTuple):
    """The log of a partition at a look. What could not be read is None; `size` are the bytes on its leader's disk.

    `rate` is how many offsets a second were written since the look before, None at the first one.
    """

    at_ms: int
    first: int | None
    end: int | None
    size: int | None
    rate: float | None = None

    @property
    def records(self) -> int | None:
        """How many offsets the log has: in a compacted topic, or with transactions, it has fewer records."""
        return None if self.first is None or self.end is None else self.end - self.first

    @property
    def rate_bytes(self) -> float | None:
        """The rate in bytes, with the mean size of what is in the log; None where that is not known."""
        if self.rate is None or self.size is None or not self.records:
            return None
        return self.rate * self.size / self.records


UNREAD = LogLook(0, None, None, None)


class TopicSum(NamedTuple):
    """What the logs of a topic's partitions have together; None where that of one partition is not known."""

    partitions: int
    records: int | None
    size: int | None
    rate: float | None
    rate_bytes: float | None


class WatchedTopics:
    """The topics of a cluster (`views`), and the last look at the logs of those that are on pages."""

    def __init__(self) -> None:
        self.views: Mapping[str, TopicView] = {}
        self.remark = ""
        """What could not be read at the last look."""
        self._logs: dict[TopicPartition, LogLook] = {}

    def fold(self, at_ms: int, first: Offsets, end: Offsets, sizes: Offsets) -> None:
        """Take a look at some partitions: where their logs begin and end, and their bytes."""
        for partition in first.keys() | end.keys():
            before = self._logs.pop(partition, UNREAD)
            if 0 <= at_ms - before.at_ms < APART_MS:
                self._logs[partition] = before
                continue
            after = LogLook(at_ms, first.get(partition), end.get(partition), sizes.get(partition))
            if before.end is not None and after.end is not None and before.end <= after.end and before.at_ms < at_ms:
                after = after._replace(rate=(after.end - before.end) * 1000 / (at_ms - before.at_ms))
            self._logs[partition] = after
        while len(self._logs) > PARTITIONS:
            del self._logs[next(iter(self._logs))]

    def log(self, topic: str, partition: int) -> LogLook:
        """Return the log of a partition as it was at the last look."""
        return self._logs.get(TopicPartition(topic, partition), UNREAD)

    def is_read(self, topics: tuple[str, ...], since_ms: int) -> bool:
        """Whether all partitions of some topics were looked at since a time; not where a topic is not known."""
        return all(
            name in self.views and all(self.log(name, each).at_ms >= since_ms for each in self.views[name].partitions)
            for name in topics
        )

    def sum(self, topic: TopicView) -> TopicSum:
        """Return what its logs have together."""
        logs = [self.log(topic.name, number) for number in topic.partitions]
        return TopicSum(
            len(logs),
            _sum([each.records for each in logs]),
            _sum([each.size for each in logs]),
            _sum([each.rate for each in logs]),
            _sum([0.0 if each.rate == 0 else each.rate_bytes for each in logs]),
        )


def _sum(values: list[int | None] | list[float | None]) -> Any:
    known = [each for each in values if each is not None]
    return sum(known) if len(known) == len(values) else None
