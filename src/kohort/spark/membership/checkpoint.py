"""A query's checkpoint compared with the commits of its group: where a restarted or a new query reads on.

The law: the group's committed offset is the truth. The checkpoint is ahead of it by the last batch where Spark was
killed between finishing that and the commit; the group is ahead where other jobs have read on. Every commit of a Spark
job has a mark: an offset without one, in a group without other members, was reset, and the user decides
(`Checkpoint`). A new checkpoint beside commits of a query that is not running was deleted or belongs to another query:
the user decides, too (`NewCheckpoint`). No row is skipped without a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.model.assignment import Partitions
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.membership.shared_state import NO_STATE, SharedState, StateGuard
from kohort.spark.membership.stream_offset import CommitMark, StreamOffset
from kohort.spark.options.member_options import Mismatch, OnNewCheckpoint
from kohort.spark.rows.rounds import OffsetRange

log = logging.getLogger(__name__)


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
    """The last batch of a query, which Spark has finished. With a strict `guard` it decides, and the group follows."""

    last: StreamOffset
    group: str
    on_mismatch: Mismatch = "fail"
    guard: StateGuard = NO_STATE

    @property
    def is_followed(self) -> bool:
        """Whether its offsets may be used: those of another group only with `onOffsetMismatch=checkpoint`."""
        return self.last.group == self.group or self.on_mismatch == "checkpoint"

    def positions(
        self, partitions: Partitions, committed: Mapping[TopicPartition, OffsetAndMetadata], *, is_shared: bool
    ) -> dict[TopicPartition, int]:
        """Return where to read on in those of some partitions that the last batch has.

        `committed` are the group's offsets; `is_shared`: the group has other members. Raises OffsetMismatch.
        """
        if self.last.group != self.group and self.last.places:
            return self._of_another_group(partitions)
        found: dict[TopicPartition, int] = {}
        for place in self._among(partitions):
            entry = committed.get(place.partition)
            if self.guard.is_strict:
                position = place.stop if self._is_own(place, entry) else None
            else:
                position = _agreed(place, entry, is_shared=is_shared)
            if position is None:
                assert entry is not None, "nothing committed is no disagreement"
                position = self._chosen(place, entry)
            found[place.partition] = position
        return found

    def is_in_doubt(self, partitions: Partitions, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> bool:
        """Return whether the positions depend on whether the group has other members."""
        entries = ((place, committed.get(place.partition)) for place in self._among(partitions))
        return any(
            entry and CommitMark.parse(entry.metadata) is None and entry.offset != place.stop
            for place, entry in entries
        )

    def without(self, partitions: Partitions) -> Checkpoint:
        """Return the checkpoint without these partitions."""
        places = tuple(each for each in self.last.places if each.partition not in partitions)
        return replace(self, last=replace(self.last, places=places))

    def _among(self, partitions: Partitions) -> list[OffsetRange]:
        return [each for each in self.last.places if each.partition in partitions]

    def _is_own(self, place: OffsetRange, entry: OffsetAndMetadata | None) -> bool:
        """Return whether the group is where this query has committed, or not yet: no one else has moved its offset."""
        if entry is None or entry.offset == place.stop:
            return True
        mark = CommitMark.parse(entry.metadata)
        is_ours = mark is not None and mark.query == self.last.query
        return is_ours and mark is not None and mark.batch <= self.last.batch and entry.offset <= place.stop

    def _of_another_group(self, partitions: Partitions) -> dict[TopicPartition, int]:
        if self.on_mismatch == "fail":
            raise OffsetMismatch(
                f"this checkpoint is of the group {self.last.group!r}, and group.id is {self.group!r}",
                group=f"read on where {self.group!r} is",
                checkpoint=f"read on where the last batch of {self.last.group!r} ended",
            )
        return {each.partition: each.stop for each in self._among(partitions)} if self.is_followed else {}

    def _chosen(self, place: OffsetRange, entry: OffsetAndMetadata) -> int:
        if self.guard.bound is not None:
            log.warning(
                "group %s: %s is at offset %d, which this query did not commit: it continues at %d, where the state of"
                " its checkpoint ends, and sets the group's offset to that",
                *(self.group, place.partition, entry.offset, place.stop),
            )
            return place.stop
        if self.guard.is_strict and self.on_mismatch != "checkpoint":
            raise SharedState(
                f"{place.partition}: the group {self.group!r} is at offset {entry.offset}, which this query did not"
                f" commit, and the state of its checkpoint ends at {place.stop}: rows between them would be counted"
                " twice or never. Set onOffsetMismatch=checkpoint to continue where the state ends; or delete the"
                " checkpoint and set onNewCheckpoint, to build the state anew from startingOffsets (startingOffsets) or"
                " from the group's offset (group). allowSharedState=true lets onOffsetMismatch decide alone"
            )
        if self.on_mismatch == "fail":
            raise OffsetMismatch(
                f"{place.partition}: the group {self.group!r} is at offset {entry.offset}, which no Spark job of it"
                f" committed, and the last batch of this checkpoint is {place.start} to {place.stop}; the offset was"
                " reset, or members of other clients have read on and left",
                group=f"read on at {entry.offset}",
                checkpoint=f"read on at {place.stop}",
            )
        return place.stop if self.on_mismatch == "checkpoint" else entry.offset


class CheckpointGone(KafkaError):
    """The query's checkpoint is new, the group's commits are those of a query that is not running."""

    def __init__(self, group: str, option: str, differing: Mapping[TopicPartition, tuple[int | None, int]]) -> None:
        partition, (start, committed) = min(differing.items())
        others = f" (and {len(differing) - 1} more partitions)" if len(differing) > 1 else ""
        at = "" if start is None else f", for {partition} at offset {start}"
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the checkpoint of this query is new, and the group {group!r} is at offset {committed} of"
            f" {partition}{others}, which another query committed that is not running: was its checkpoint deleted? Set"
            f" the option onNewCheckpoint to group (read on at the group's offsets) or to startingOffsets (begin at"
            f" {option}{at}), or reset the group's offsets: kohort groups reset-offsets {group} --topic"
            f" {partition.topic} --to-earliest --execute",
        )


class NewCheckpoint:
    """Applies `onNewCheckpoint` to each partition once. `found` are the group's commits when the query began.

    `option` is the option that applies to a query without commits, such as startingOffsets=earliest.
    """

    def __init__(
        self, group: str, on_new: OnNewCheckpoint, option: str, found: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        self.on_new = on_new
        self._group = group
        self._option = option
        self._found = dict(found)

    def in_question(self, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> frozenset[TopicPartition]:
        """Return the partitions whose commits have not moved since the query began."""
        return frozenset(each for each, entry in committed.items() if self._found.get(each) == entry)

    def positions(
        self,
        committed: Mapping[TopicPartition, OffsetAndMetadata],
        starts: Mapping[TopicPartition, int],
        *,
        is_shared: bool,
        is_latest: bool,
    ) -> dict[TopicPartition, int]:
        """Return where to begin instead of at the commits. Raises CheckpointGone.

        `starts` are the starting offsets, as far as they are known; `is_latest`: they are the latest ones.
        `is_shared`: other members read these topics.
        """
        asked = {each: committed[each] for each in self.in_question(committed)}
        for each in asked:
            del self._found[each]
        differing = {
            each: (starts.get(each), entry.offset) for each, entry in asked.items() if starts.get(each) != entry.offset
        }
        if self.on_new == "startingOffsets":
            return {
                each: start
                for each, (start, _) in differing.items()
                if start is not None and not (is_latest and _is_begun(asked[each]))
            }
        if self.on_new == "fail" and not is_shared and any(_is_finished(asked[each]) for each in differing):
            raise CheckpointGone(self._group, self._option, differing)
        skipped = {each: (start, at) for each, (start, at) in differing.items() if start is not None and start < at}
        if skipped:
            partition, (start, at) = min(skipped.items())
            log.warning(
                "group %s: the checkpoint of this query is new and the group has commits, at which it reads on: it"
                " skips %d offsets of %d partitions behind %s (%s: %d to %d); onNewCheckpoint=startingOffsets"
                " reads them",
                self._group,
                sum(at - start for start, at in skipped.values()),
                len(skipped),
                self._option,
                partition,
                start,
                at - 1,
            )
        return {}


def _agreed(last: OffsetRange, entry: OffsetAndMetadata | None, *, is_shared: bool) -> int | None:
    """Return where checkpoint and group agree to read on, or None where they do not."""
    if entry is None or entry.offset == last.stop:
        return last.stop
    if CommitMark.parse(entry.metadata) is None:
        return entry.offset if is_shared else None
    if entry.offset < last.start:
        return None  # jobs only commit forward: the offset was reset
    # At its start the batch was never committed; beyond it, other members have read on.
    return last.stop if entry.offset == last.start else entry.offset


def _is_finished(entry: OffsetAndMetadata) -> bool:
    mark = CommitMark.parse(entry.metadata)
    return mark is not None and mark.is_of_a_finished_batch


def _is_begun(entry: OffsetAndMetadata) -> bool:
    """Return whether a query committed this offset when it began the partition, and finished no batch."""
    mark = CommitMark.parse(entry.metadata)
    return mark is not None and bool(mark.query) and mark.batch < 0
