"""What keeper and group say of each other's offsets when a member takes partitions over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import cast

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.client.membership.membership import Membership
from kohort.model.ids import TopicPartition
from kohort.spark.membership.commit_mark import JOB
from kohort.spark.membership.offset_store import settle, take_over
from kohort.spark.tables.table import Claim, Held, Superseded

A, B = TopicPartition("flights", 0), TopicPartition("flights", 1)


class Member:
    """Takes every commit."""

    generation, member_id = 3, "m"

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed |= offsets

    def __call__(self) -> Membership:
        return cast(Membership, self)


class Table:
    """Holds offset 7 of A, in a generation that the group has not reached yet."""

    def claim(
        self, group: str, generation: int, owner: str, partitions: Iterable[TopicPartition], *, is_renewed: bool = False
    ) -> dict[TopicPartition, int | None]:
        assert group == "g", "the group is named"
        if not is_renewed:
            raise Superseded(A, Held(7, Claim(9, "before")), Claim(generation, owner), "a claim")
        return dict.fromkeys(partitions, 7)

    def place(self, offsets: Mapping[TopicPartition, int]) -> None:
        raise AssertionError(f"nothing is moved, and not to {offsets}")


def test_what_the_keeper_makes_the_group_commit_bears_the_mark_of_a_job() -> None:
    """A streaming query of the group takes an offset without it for a reset."""
    asked, behind = Member(), Member()
    assert asyncio.run(take_over(Table(), asked(), "g", [A])) == {A: 7}
    asyncio.run(settle(Table(), behind(), {A: 7}, {A: OffsetAndMetadata(5, JOB.text)}, {A: 7}))
    assert asked.committed == behind.committed == {A: OffsetAndMetadata(7, JOB.text)}


def test_a_partition_that_is_deleted_while_it_is_taken_over_is_let_be() -> None:
    member = Member()
    asyncio.run(settle(Table(), member(), {A: 7, B: 4}, {}, {B: 4}))
    assert member.committed.keys() == {B}
