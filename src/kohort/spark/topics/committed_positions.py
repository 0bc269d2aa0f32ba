"""The positions of a `TransactionalTopic` in `foreachBatch`, as those of a table: commits beside the records.

The position of a partition that is read is its own commit. Kafka commits offsets of topics that exist only, so the
number of the next micro-batch is the commit of partition 0 of the topic that is written. The metadata of both is their
origin: the topic's id and the group that reads it, or the query's id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.model.ids import TopicPartition
from kohort.spark.tables.table import OffsetStep, OtherTopic, Position, Positions, is_of_batches, most_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

_TEXT = re.compile(r"kohort\.written (?:query|topic)=(?P<id>\S*)(?: group=(?P<group>.*))?", re.DOTALL)


class Origin(NamedTuple):
    """What a position counts: offsets of a topic that `group` reads, or, without a group, micro-batches of a query."""

    id: str
    """The id of the topic or query; empty where the cluster has no ids of topics."""
    group: str | None = None

    @property
    def text(self) -> str:
        """The metadata of the commit."""
        return f"kohort.written {self}"

    @classmethod
    def parse(cls, metadata: str) -> Origin | None:
        """Return the origin in a commit's metadata; None where it was committed without one, or reset."""
        found = _TEXT.fullmatch(metadata)
        return found and cls(found["id"], found["group"])

    def __str__(self) -> str:
        return f"query={self.id}" if self.group is None else f"topic={self.id} group={self.group}"


@dataclass(frozen=True, slots=True)
class CommittedPositions:
    """Writes rows to `topic` with commits of the group `name`; a `Table` of one call of a function in `foreachBatch`.

    `committed(partitions)` returns commits of that group, and `write(frame, size, offsets)` writes about `size` rows in
    one transaction with its commits. `origins` are those of the query that calls, by the topic of a position; a
    program's own call has none, and then none is compared or stored.
    """

    topic: str
    name: str
    committed: Callable[[Collection[TopicPartition]], Offsets]
    write: Callable[[DataFrame, float, Offsets], None]
    origins: Mapping[str, Origin]

    def __repr__(self) -> str:
        return f"TransactionalTopic({self.topic!r}, group={self.name!r})"

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:  # noqa: ARG002
        """Return the positions of these partitions. Raises OtherTopic for those of another origin, and KafkaError."""
        asked = {self._place(each): each for each in partitions}
        found: Positions = {}
        for place, entry in sorted(self.committed(asked).items()):
            partition, origin = asked[place], Origin.parse(entry.metadata)
            now = self.origins.get(partition.topic)
            if origin and now and (origin.group != now.group or (origin.id and now.id and origin.id != now.id)):
                raise OtherTopic(
                    f"{self!r} has the position {entry.offset} of {partition} from {origin}, and this is {now}: two"
                    " queries write under one name, the checkpoint was deleted, or the topic was created again. Give"
                    f" it another group, or reset the offsets of {self.name} (kohort groups reset-offsets)"
                )
            found[partition] = Position(entry.offset, (origin and origin.id) or None)
        return found

    def append(self, frame: DataFrame, group: str, steps: Mapping[TopicPartition, OffsetStep]) -> None:  # noqa: ARG002
        """Write a frame's rows, and commit the steps in the same transaction. Raises KafkaError."""
        commits = {}
        for partition, step in steps.items():
            origin = self.origins.get(partition.topic)
            commits[self._place(partition)] = OffsetAndMetadata(step.stop.offset, origin.text if origin else "")
        size = frame.count() if any(map(is_of_batches, steps)) else most_rows(steps)
        self.write(frame, size, commits)

    def _place(self, partition: TopicPartition) -> TopicPartition:
        """Return the partition whose commit is this position."""
        return TopicPartition(self.topic, 0) if is_of_batches(partition) else partition
