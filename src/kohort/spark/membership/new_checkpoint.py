"""A streaming query with a new checkpoint, in a group that has commits: read on at them, or begin anew.

The law: nothing is skipped in silence. Where the commits are those of a query that is not running, its checkpoint was
deleted or belongs to another query: only the user knows which, so the default is an error that names both ways. Where
other members read the same topics, or no query committed, the query joins at the commits, with a warning of what it
skips. A commit that others have moved since the query began is never in question.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark.membership.commit_mark import CommitMark
from kohort.spark.options.member_options import OnNewCheckpoint

log = logging.getLogger(__name__)


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
    """What `onNewCheckpoint` says of each partition, once. `found` are the group's commits when the query began.

    `option` is what says where a query without commits begins, such as startingOffsets=earliest.
    """

    def __init__(
        self, group: str, on_new: OnNewCheckpoint, option: str, found: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        self.on_new = on_new
        self._group = group
        self._option = option
        self._found = dict(found)

    def in_question(self, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> frozenset[TopicPartition]:
        """Return the partitions whose commits nobody has moved since the query began."""
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

        `starts` is where the starting offsets are, as far as that is known; `is_latest`: they are the latest ones.
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


def _is_finished(entry: OffsetAndMetadata) -> bool:
    mark = CommitMark.parse(entry.metadata)
    return mark is not None and mark.is_of_a_finished_batch


def _is_begun(entry: OffsetAndMetadata) -> bool:
    """Return whether a query only began the partition there, and finished no batch."""
    mark = CommitMark.parse(entry.metadata)
    return mark is not None and bool(mark.query) and mark.batch < 0
