"""A restarted query: what its checkpoint says beside what its group says.

The law: the group's committed offset is the truth. The checkpoint is ahead of it by the last batch, where Spark was
killed between finishing that and the commit; the group is ahead where other jobs read on. Every commit of a job of ours
bears a mark, also the one with which it begins a partition: an offset without it, in a group without other members, was
reset by somebody, and that is for the user to decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.membership.commit_mark import CommitMark
from kohort.spark.membership.stream_offset import StreamOffset
from kohort.spark.options.member_options import Mismatch
from kohort.spark.rows.rounds import OffsetRange


class OffsetMismatch(KafkaError):
    """The group and the checkpoint disagree, and `onOffsetMismatch` is "fail"."""

    def __init__(self, text: str, *, group: str, checkpoint: str) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{text}: give the query the checkpointLocation that belongs to the group, or the option onOffsetMismatch,"
            f" which takes group ({group}) or checkpoint ({checkpoint})",
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last batch of a query, all of whose rows Spark has finished with."""

    last: StreamOffset
    group: str
    on_mismatch: Mismatch = "fail"

    @property
    def is_followed(self) -> bool:
        """Whether it has a say: one of another group may have none."""
        return self.last.group == self.group or self.on_mismatch == "checkpoint"

    def positions(
        self, partitions: Partitions, committed: Mapping[TopicPartition, OffsetAndMetadata], *, is_shared: bool
    ) -> dict[TopicPartition, int]:
        """Return where to read on in those of some partitions in which the checkpoint has a say.

        `committed` are the group's offsets; `is_shared` says that it has other members. Raises OffsetMismatch.
        """
        if self.last.group != self.group and self.last.places:
            return self._of_another_group(partitions)
        found: dict[TopicPartition, int] = {}
        for place in self._among(partitions):
            entry = committed.get(place.partition)
            position = _agreed(place, entry, is_shared=is_shared)
            if position is None:
                assert entry is not None, "nothing committed is no disagreement"
                position = self._chosen(place, entry)
            found[place.partition] = position
        return found

    def is_in_doubt(self, partitions: Partitions, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> bool:
        """Return whether it matters that the group has other members."""
        entries = ((place, committed.get(place.partition)) for place in self._among(partitions))
        return any(
            entry and CommitMark.parse(entry.metadata) is None and entry.offset != place.stop
            for place, entry in entries
        )

    def without(self, partitions: Partitions) -> Checkpoint:
        """Return the checkpoint with no say in these partitions."""
        places = tuple(each for each in self.last.places if each.partition not in partitions)
        return replace(self, last=replace(self.last, places=places))

    def _among(self, partitions: Partitions) -> list[OffsetRange]:
        return [each for each in self.last.places if each.partition in partitions]

    def _of_another_group(self, partitions: Partitions) -> dict[TopicPartition, int]:
        if self.on_mismatch == "fail":
            raise OffsetMismatch(
                f"this checkpoint is of the group {self.last.group!r}, and group.id is {self.group!r}",
                group=f"read on where {self.group!r} is",
                checkpoint=f"read on where the last batch of {self.last.group!r} ended",
            )
        return {each.partition: each.stop for each in self._among(partitions)} if self.is_followed else {}

    def _chosen(self, place: OffsetRange, entry: OffsetAndMetadata) -> int:
        if self.on_mismatch == "fail":
            raise OffsetMismatch(
                f"{place.partition}: the group {self.group!r} is at offset {entry.offset}, which no Spark job of it"
                f" committed, and the last batch of this checkpoint is {place.start} to {place.stop}; the offset was"
                " reset, or members of other clients have read on and left",
                group=f"read on at {entry.offset}",
                checkpoint=f"read on at {place.stop}",
            )
        return place.stop if self.on_mismatch == "checkpoint" else entry.offset


def _agreed(last: OffsetRange, entry: OffsetAndMetadata | None, *, is_shared: bool) -> int | None:
    """Return where both agree to read on, or None where they do not."""
    if entry is None or entry.offset == last.stop:
        return last.stop
    if CommitMark.parse(entry.metadata) is None:
        return entry.offset if is_shared else None
    if entry.offset < last.start:
        return None  # a job only commits forward: somebody took it back
    # At its start the batch was never committed; beyond it, others have read on.
    return last.stop if entry.offset == last.start else entry.offset
