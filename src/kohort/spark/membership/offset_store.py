"""A store of offsets beside the rows, and how store and group agree on where a member begins to read.

The law: the store's offsets are the truth. The group's committed offsets follow, so that tools show the lag; they are
used where the store has none, and what a policy chose there is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.client.membership.membership import Membership
from kohort.model.ids import TopicPartition
from kohort.spark.membership.commit_mark import JOB
from kohort.spark.tables.table import OtherTopic, Position, Positions, TableBroken, is_same_topic


@runtime_checkable
class OffsetStore(Protocol):
    """Stores the offsets of a stream's partitions in one step with its rows."""

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """Return where to read on in partitions that a member was assigned; those without an offset are left out."""
        ...


async def settle(
    member: Membership,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    chosen: Mapping[TopicPartition, int],
) -> None:
    """Make the group agree with the store, and with what a policy chose where the store has nothing.

    A member that was killed between the store's step and the group's commit left the group behind. Raises CommitFailed
    where another member owns a partition.
    """
    await member.commit(
        {
            partition: OffsetAndMetadata(offset, JOB.text)
            for partition, offset in chosen.items()
            if partition not in committed or committed[partition].offset != offset
        }
    )


def require_in_log(
    store: OffsetStore,
    group: str,
    found: Mapping[TopicPartition, Position],
    ends: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
) -> None:
    """Raise TableBroken where the store has an offset beyond the end of its topic, or one of another topic."""
    for partition, position in sorted(found.items()):
        now = topic_ids.get(partition.topic)
        if not is_same_topic(position.topic_id, now):
            raise OtherTopic.of(repr(store), group, partition, position, now)
        if position.offset > ends.get(partition, position.offset):
            raise TableBroken(
                f"{store!r} holds offset {position.offset} of {partition} for group {group}, and the topic ends at"
                f" {ends[partition]}: the topic was created again, or this is another cluster. Read it as another"
                " group, or set the table's offsets (set_offsets)"
            )
