"""A store of offsets beside the rows, and how a member claims its partitions there when they are assigned to it.

The law: the store's offsets are the truth. The group's committed offsets follow, so that tools show the lag; they are
used where the store has none. A claim has the generation in which the member owns the partition, so that a late
member is refused. A group that was deleted starts its generations again: if it accepts a commit, a lower one counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.client.membership.membership import Membership
from kohort.model.ids import TopicPartition
from kohort.spark.membership.commit_mark import JOB
from kohort.spark.tables.table import Superseded

log = logging.getLogger(__name__)


@runtime_checkable
class OffsetStore(Protocol):
    """Stores the offsets of a stream's partitions in one step with its rows."""

    def claim(
        self, group: str, generation: int, owner: str, partitions: Iterable[TopicPartition], *, is_renewed: bool = False
    ) -> dict[TopicPartition, int | None]:
        """Claim partitions for a member, and return where to read on. Raises Superseded."""
        ...

    def place(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Move claimed partitions to offsets that a reset policy chose. Raises Fenced."""
        ...


async def take_over(
    store: OffsetStore, member: Membership, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Claim partitions that a member owns, and return the offsets that the store has of them.

    Raises CommitFailed where it is no member of the group any more.
    """
    generation, owner, asked = member.generation, member.member_id, sorted(partitions)
    try:
        found = await asyncio.to_thread(store.claim, group, generation, owner, asked)
    except Superseded as refusal:
        if refusal.held.offset is not None:
            # If the group accepts the commit, this is its member, whatever the store has seen: the group was deleted.
            await member.commit({refusal.partition: OffsetAndMetadata(refusal.held.offset, JOB.text)})
        log.warning("group %s starts its generations again: %s", group, refusal.text)
        found = await asyncio.to_thread(store.claim, group, generation, owner, asked, is_renewed=True)
    return {partition: offset for partition, offset in found.items() if offset is not None}


async def settle(
    store: OffsetStore,
    member: Membership,
    held: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    chosen: Mapping[TopicPartition, int],
) -> None:
    """Make store and group agree on where reading starts: `chosen` is what the store held, or what a policy chose.

    A partition that was deleted meanwhile is not in `chosen`. Raises CommitFailed where another member owns one.
    """
    placed = {partition: offset for partition, offset in chosen.items() if held.get(partition) != offset}
    if placed:
        await asyncio.to_thread(store.place, placed)
    # A member that was killed between the store's step and the group's commit left the group behind.
    behind = {
        partition: OffsetAndMetadata(offset, JOB.text)
        for partition, offset in held.items()
        if chosen.get(partition) == offset and (partition not in committed or committed[partition].offset != offset)
    }
    await member.commit(behind)
