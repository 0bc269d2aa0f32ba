"""What is written of a batch: its `StreamOffset` in its checkpoint, a `CommitMark` in the commits of its group.

The law: the end of a batch describes it wholly. Its start is not needed, so that a replayed batch is the same batch
whichever member owns the partitions by then. `batch` counts on after restarts: no two batches of a query have equal
ends. Every commit of a job has a mark, also the one with which it begins a partition: an offset without one was
committed by another client or reset by an administrator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kohort.model.ids import TopicPartition
from kohort.spark.rows.rounds import OffsetRange

VERSION = 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """One batch of a query in a group; `batch` is -1 before the first.

    `places` has a range for every partition that the job owned; those without new records are empty. `reader` names the
    control socket of the process that planned it, `query` is the name of the query, the
    same after restarts. `topic_ids` are those of the topics, in Kafka's text: a recreated topic has another one.
    `bound` is the part of the partitions that is bound to the checkpoint, or empty.
    """

    group: str
    batch: int = -1
    generation: int = -1
    places: tuple[OffsetRange, ...] = ()
    reader: str = ""
    query: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    bound: str = ""

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """What the batch reads."""
        return tuple(each for each in self.places if each.size)

    def to_json(self) -> dict[str, Any]:
        """Return it for Spark's checkpoint: `topics` is where the batch ends, `from` where it begins if not there."""
        found = {
            "version": VERSION,
            "group": self.group,
            "batch": self.batch,
            "generation": self.generation,
            "from": _nested((each.partition, each.start) for each in self.ranges),
            "topics": _nested((each.partition, each.stop) for each in self.places),
        }
        later = {"reader": self.reader, "query": self.query, "ids": dict(sorted(self.topic_ids.items()))}
        later["bound"] = self.bound
        return found | {name: value for name, value in later.items() if value}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> StreamOffset:
        """Return the batch that `to_json` wrote. Raises ValueError with the reason for anything else."""
        version = found.get("version")
        if type(version) is int and version > VERSION:
            raise ValueError(
                f"this checkpoint was written by a newer kohort (version {version} of its offsets, this one reads"
                f" {VERSION}): run the query with that one, or give it another checkpointLocation"
            )
        try:
            stops, starts = _flat(found["topics"]), _flat(found["from"])
            places = tuple(OffsetRange(each, starts.get(each, stop), stop) for each, stop in sorted(stops.items()))
            numbers = (version, found["batch"], found["generation"])
            if not all(type(each) is int for each in numbers) or starts.keys() - stops.keys():
                raise ValueError
            return cls(
                str(found["group"]),
                found["batch"],
                found["generation"],
                places,
                str(found.get("reader", "")),
                str(found.get("query", "")),
                {str(topic): str(each) for topic, each in found.get("ids", {}).items()},
                str(found.get("bound", "")),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError(
                f"this checkpoint was not written by format('kohort'), its offset is {dict(found)}: a query that moves"
                " here from another source needs a new checkpointLocation"
            ) from None


def _nested(offsets: Iterable[tuple[TopicPartition, int]]) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def _flat(topics: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


_TEXT = re.compile(r"kohort\.spark(?: query=(?P<query>\w+) batch=(?P<batch>-?\d+)(?: state=(?P<state>\S+))?)?")


@dataclass(frozen=True, slots=True)
class CommitMark:
    """What a job writes beside an offset. A `GroupStream` has no `query`; `batch` is -1 where none was finished.

    `state` is the part of the partitions whose rows are in the state of the query's checkpoint, such as all or 1/2.
    """

    query: str = ""
    batch: int = -1
    state: str = ""

    @property
    def text(self) -> str:
        """The metadata of the commit."""
        state = f" state={self.state}" if self.state else ""
        return f"kohort.spark query={self.query} batch={self.batch}{state}" if self.query else "kohort.spark"

    @property
    def is_of_a_finished_batch(self) -> bool:
        """Whether a streaming query committed this offset after a batch, and not when it began the partition."""
        return bool(self.query) and self.batch >= 0

    @classmethod
    def parse(cls, metadata: str | None) -> CommitMark | None:
        """Return the mark in a commit's metadata, None where no job of ours committed."""
        if (found := _TEXT.fullmatch(metadata or "")) is None:
            return None
        return cls(found["query"], int(found["batch"]), found["state"] or "") if found["query"] else cls()


JOB = CommitMark()
"""The mark of a job that is no streaming query."""
