"""Offsets that are committed in transactions: who may commit, when they count, and which of several wins (KIP-447)."""

from __future__ import annotations

import pytest
from tests.unit.group.world import SESSION_MS, World

from kohort.group.classic.group import Phase
from kohort.group.commands import DeleteGroup, DeleteOffsets, ExpireOffsets, OffsetToCommit
from kohort.group.committed_offsets import fetch_offset
from kohort.group.events import OffsetsTransactionEnded
from kohort.group.shard import apply
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID

PRODUCER, OTHER = (9, 0), (10, 0)


def at(offset: int) -> list[OffsetToCommit]:
    return [OffsetToCommit("t", 0, offset, -1, "", NO_TOPIC_ID)]


def committed(world: World) -> int | None:
    found = fetch_offset(world.shard, "g", "t", 0, NO_TOPIC_ID)
    return None if found is None else found.offset


def end(world: World, producer: tuple[int, int] = PRODUCER, *, commit: bool = True) -> None:
    apply(world.shard, OffsetsTransactionEnded(producer[0], commit))


def is_pending(world: World) -> bool:
    return world.shard.pending.is_pending("g", "t", 0)


@pytest.mark.parametrize(("commit", "expected"), [(True, 7), (False, None)])
def test_an_offset_counts_when_its_transaction_commits(commit: bool, expected: int | None) -> None:
    world = World()
    assert world.commit(producer=PRODUCER).error is ErrorCode.NONE
    assert committed(world) is None
    assert is_pending(world)
    end(world, commit=commit)
    assert committed(world) == expected
    assert not is_pending(world)


def test_an_end_of_a_transaction_that_is_not_known_changes_nothing() -> None:
    world = World()
    world.commit()
    end(world)
    assert committed(world) == 7


def test_a_plain_commit_after_it_wins_and_the_offset_is_unstable_until_the_end() -> None:
    world = World()
    world.commit(producer=PRODUCER, offsets=at(5))
    world.commit(offsets=at(6))
    assert (committed(world), is_pending(world)) == (6, True)
    end(world)
    assert (committed(world), is_pending(world)) == (6, False)


def test_of_two_transactions_the_later_commit_wins_whichever_ends_first() -> None:
    for first, second in ((PRODUCER, OTHER), (OTHER, PRODUCER)):
        world = World()
        world.commit(producer=PRODUCER, offsets=at(5))
        world.commit(producer=OTHER, offsets=at(6))
        end(world, first)
        end(world, second)
        assert committed(world) == 6


def test_within_a_transaction_the_last_commit_counts() -> None:
    world = World()
    world.commit(producer=PRODUCER, offsets=at(5))
    world.commit(offsets=at(6))
    world.commit(producer=PRODUCER, offsets=at(7))
    end(world)
    assert committed(world) == 7


def test_an_offset_that_is_deleted_meanwhile_does_not_come_back() -> None:
    world = World()
    world.commit(offsets=at(1))
    world.commit(producer=PRODUCER, offsets=at(5))
    world.submit(DeleteOffsets("g", (("t", 0),)))
    end(world)
    assert committed(world) is None


def test_a_group_that_is_deleted_meanwhile_does_not_come_back() -> None:
    world = World()
    world.commit(producer=PRODUCER, offsets=at(5))
    assert world.submit(DeleteGroup("g")).error is ErrorCode.NONE
    end(world)
    assert committed(world) is None


def test_a_group_with_an_open_transaction_does_not_expire() -> None:
    world = World()
    world.commit(offsets=at(1))
    world.commit(producer=PRODUCER, offsets=at(5))
    world.now_ms += 10**12
    world.submit(ExpireOffsets("g"))
    assert committed(world) == 1
    end(world)
    world.now_ms += 10**12
    world.submit(ExpireOffsets("g"))
    assert committed(world) is None
    assert "g" not in world.shard.groups


# -- who may commit


def test_who_names_no_member_may_commit_to_a_group_with_members() -> None:
    world = World()
    world.stable(1)
    assert world.commit().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(producer=PRODUCER).error is ErrorCode.NONE


def test_who_names_a_member_must_be_one_in_its_generation() -> None:
    world = World()
    (member_id,) = world.stable(1)
    assert world.commit("stranger", 1, producer=PRODUCER).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(member_id, 0, producer=PRODUCER).error is ErrorCode.ILLEGAL_GENERATION
    assert world.commit(member_id, 1, producer=PRODUCER).error is ErrorCode.NONE


def test_a_generation_of_a_group_that_does_not_exist_is_illegal() -> None:
    assert World().commit("m", 3, producer=PRODUCER).error is ErrorCode.ILLEGAL_GENERATION


def test_a_member_may_commit_between_join_and_sync() -> None:
    world = World()
    member_id, _ = world.enter()
    world.gather()
    assert world.group().phase is Phase.COMPLETING_REBALANCE
    assert world.commit(member_id, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.commit(member_id, 1, producer=PRODUCER).error is ErrorCode.NONE


def test_a_commit_in_a_transaction_is_no_sign_of_life() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.advance(SESSION_MS - 1)
    world.commit(member_id, 1, producer=PRODUCER)
    world.advance(1)
    assert member_id not in world.group().members
