"""How store and group agree on where a member begins to read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import cast

import pytest

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.client.membership.membership import Membership
from kohort.model.ids import TopicPartition
from kohort.spark.membership.starting_offsets import require_in_log, settle
from kohort.spark.membership.stream_offset import JOB
from kohort.spark.tables.table import OtherTopic, Position, Positions, TableBroken

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
    """A store that is named in messages."""

    def __repr__(self) -> str:
        return "Table()"

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        raise AssertionError(f"group {group} is not asked again for {partitions}")


def test_the_group_follows_the_store_and_its_commits_bear_the_mark_of_a_job() -> None:
    """A streaming query of the group takes an offset without it for a reset."""
    member = Member()
    committed = {A: OffsetAndMetadata(5, JOB.text), B: OffsetAndMetadata(4)}
    asyncio.run(settle(member(), committed, {A: 7, B: 4}))
    assert member.committed == {A: OffsetAndMetadata(7, JOB.text)}
    asyncio.run(settle(member(), {}, {B: 3}))
    assert member.committed[B] == OffsetAndMetadata(3, JOB.text), "what a policy chose is committed"


def test_an_offset_beyond_the_end_of_its_topic_is_refused_with_what_to_do() -> None:
    require_in_log(Table(), "g", {A: Position(7), B: Position(4)}, {A: 7}, {})
    with pytest.raises(TableBroken, match=r"Table\(\) has offset 7 of flights-0 for group g, and the topic ends at 6"):
        require_in_log(Table(), "g", {A: Position(7)}, {A: 6, B: 9}, {})


def test_an_offset_of_another_topic_is_refused_although_the_new_topic_is_longer() -> None:
    known = {A: Position(50, "9w3YQ1aBR0")}
    require_in_log(Table(), "g", known, {A: 80}, {"flights": "9w3YQ1aBR0mzUq2vXk7Wlg"})
    require_in_log(Table(), "g", known, {A: 80}, {})
    require_in_log(Table(), "g", {A: Position(50)}, {A: 80}, {"flights": "9w3YQ1aBR0mzUq2vXk7Wlg"})
    with pytest.raises(OtherTopic, match=r"has offset 50 of flights-0 .* the topic's id is Ab4: it was created again"):
        require_in_log(Table(), "g", known, {A: 80}, {"flights": "Ab4"})
