"""What each migration policy lets happen: to groups with members, and to empty ones, which may always change type."""

from __future__ import annotations

import pytest
from tests.unit.group.mixed import Mixed, NativeClient, classic_members, offer, rounds

from kohort.group.classic.group import ClassicGroup
from kohort.group.commands import Leaving
from kohort.group.events import ConsumerGroupDeleted, GroupDeleted, TargetDeleted
from kohort.model.errors import ErrorCode

POLICIES = ["bidirectional", "upgrade", "downgrade", "disabled"]


@pytest.mark.parametrize("policy", POLICIES)
def test_empty_classic_group_becomes_a_consumer_group_under_every_policy(policy: str) -> None:
    world = Mixed(migration_policy=policy)
    (client,) = classic_members(world, 1)
    client.leave()
    assert world.native("n", 0).error is ErrorCode.NONE
    assert world.is_consumer
    assert world.member("n").epoch == 2
    assert any(isinstance(event, GroupDeleted) for records in world.log for event in records)


@pytest.mark.parametrize("policy", POLICIES)
def test_empty_consumer_group_becomes_a_classic_group_under_every_policy(policy: str) -> None:
    world = Mixed(migration_policy=policy)
    NativeClient(world, "n").step()
    world.leave(Leaving("n"))
    assert world.join(protocols=offer()).error is ErrorCode.MEMBER_ID_REQUIRED
    assert isinstance(world.shard.groups["g"], ClassicGroup)
    gone = [
        type(event)
        for records in world.log
        for event in records
        if isinstance(event, TargetDeleted | ConsumerGroupDeleted)
    ]
    assert gone == [TargetDeleted, ConsumerGroupDeleted]


@pytest.mark.parametrize("policy", POLICIES)
def test_group_that_only_has_offsets_becomes_either_under_every_policy(policy: str) -> None:
    for is_native in (True, False):
        world = Mixed(migration_policy=policy)
        world.commit()
        if is_native:
            assert world.native("n", 0).error is ErrorCode.NONE
        else:
            assert world.join(instance_id="i", protocols=offer()).error_or_waiting is ErrorCode.NONE
        assert world.is_consumer is is_native
        assert world.shard.offsets["g"]


def test_offsets_outlive_every_conversion() -> None:
    world = Mixed()
    world.commit()
    (client,) = classic_members(world, 1)
    native = NativeClient(world, "n")
    rounds(client, native)
    native.leave()
    world.restart()
    assert world.shard.offsets["g"]["t", 0].offset == 7


def test_member_id_does_not_open_an_empty_consumer_group() -> None:
    world = Mixed()
    NativeClient(world, "n").step()
    world.leave(Leaving("n"))
    assert world.join("m", protocols=offer()).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.is_consumer


@pytest.mark.parametrize("policy", POLICIES)
def test_policy_decides_whether_a_native_member_converts_a_group(policy: str) -> None:
    world = Mixed(migration_policy=policy.upper())
    classic_members(world)
    result = world.native("n", 0)
    is_allowed = policy in ("bidirectional", "upgrade")
    assert result.error is (ErrorCode.NONE if is_allowed else ErrorCode.GROUP_ID_NOT_FOUND)
    assert world.is_consumer is is_allowed
    if not is_allowed:
        assert policy.upper() in (result.error_message or "")


@pytest.mark.parametrize("policy", POLICIES)
def test_policy_decides_whether_a_classic_member_enters_a_consumer_group(policy: str) -> None:
    world = Mixed(migration_policy=policy)
    native = NativeClient(world, "n")
    native.step()
    error = world.join(protocols=offer()).error
    assert error is (ErrorCode.INCONSISTENT_GROUP_PROTOCOL if policy == "disabled" else ErrorCode.MEMBER_ID_REQUIRED)


def test_no_classic_member_joins_under_the_policy_disabled_be_it_inside_already() -> None:
    world = Mixed()
    (client,) = classic_members(world, 1)
    native = NativeClient(world, "n")
    rounds(client, native)
    object.__setattr__(world.settings, "migration_policy", "disabled")
    join = world.join(client.member_id, protocols=offer(generation=client.generation))
    assert join.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
