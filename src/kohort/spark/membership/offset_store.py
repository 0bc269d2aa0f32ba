"""Offsets that are kept beside the rows, and how a member takes them over when it is given partitions.

The law: the keeper's offsets are the truth. The group's are where lag tools look, and what is read where the keeper has
none; they follow. What a member claims is claimed in the generation in which it owns the partition, so that a late
one is refused; where the group itself counts anew, it says so by taking a commit.
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
from kohort.spark.tables.fencing import Superseded

log = logging.getLogger(__name__)


@runtime_checkable
class OffsetKeeper(Protocol):
    """Keeps the offsets of a stream's partitions in one step with its rows."""

    def claim(
        self, group: str, generation: int, owner: str, partitions: Iterable[TopicPartition], *, is_renewed: bool = False
    ) -> dict[TopicPartition, int | None]:
        """Take partitions over for a member, and return where to read on. Raises Superseded."""
        ...

    def place(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Move claimed partitions to offsets that a reset policy chose. Raises Fenced."""
        ...


async def take_over(
    keeper: OffsetKeeper, member: Membership, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Claim partitions that a member owns now, and return the offsets that the keeper has of them.

    Raises CommitFailed when the member turns out not to be the group's any more.
    """
    generation, owner, asked = member.generation, member.member_id, sorted(partitions)
    try:
        found = await asyncio.to_thread(keeper.claim, group, generation, owner, asked)
    except Superseded as refusal:
        if refusal.held.offset is not None:
            # Whose commit the group takes is its member now, whatever the keeper has seen: the group was made anew.
            await member.commit({refusal.partition: OffsetAndMetadata(refusal.held.offset, JOB.text)})
        log.warning("group %s counts anew: %s", group, refusal.text)
        found = await asyncio.to_thread(keeper.claim, group, generation, owner, asked, is_renewed=True)
    return {partition: offset for partition, offset in found.items() if offset is not None}


async def settle(
    keeper: OffsetKeeper,
    member: Membership,
    held: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    chosen: Mapping[TopicPartition, int],
) -> None:
    """Make keeper and group agree on where reading starts: `chosen` is what the keeper held, or what a policy said.

    A partition that is gone meanwhile is not in `chosen`. Raises CommitFailed where either has another owner by now.
    """
    placed = {partition: offset for partition, offset in chosen.items() if held.get(partition) != offset}
    if placed:
        await asyncio.to_thread(keeper.place, placed)
    # Whoever was killed between the keeper's step and the group's commit left the group behind.
    behind = {
        partition: OffsetAndMetadata(offset, JOB.text)
        for partition, offset in held.items()
        if chosen.get(partition) == offset and (partition not in committed or committed[partition].offset != offset)
    }
    await member.commit(behind)
