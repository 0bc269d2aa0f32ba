"""The fold of a consumer group's records: each with its tombstone, and logs of which compaction has left a part."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.group.consumer_world import parts, topic_id

from kohort.group.consumer.group import ConsumerGroup
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import (
    Assigned,
    ClassicMemberMetadata,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerHardEvent,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    GroupDeleted,
    GroupStored,
    HardEvent,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    OffsetCommitted,
    PartitionMetadataDeleted,
    RegexDeleted,
    RegexStored,
    TargetDeleted,
    TargetStored,
)
from kohort.group.shard import Shard, apply
from kohort.model.cause import Cause, CauseKind
from kohort.sim.checks.invariants import violations

CAUSE = Cause(CauseKind.COORDINATOR_LOADED, -1)
FOO = topic_id("foo")


def member_stored(member_id: str, **changes: Any) -> ConsumerMemberStored:
    fields = {
        "instance_id": None,
        "rack_id": None,
        "client_id": "c",
        "client_host": "/h",
        "subscribed_topic_names": ("foo",),
        "subscribed_topic_regex": "",
        "rebalance_timeout_ms": 60_000,
        "server_assignor": None,
        "classic": None,
    }
    return ConsumerMemberStored("g", member_id, cause=CAUSE, **{**fields, **changes})


def has(member_id: str, epoch: int, *numbers: int, pending: tuple[int, ...] = ()) -> MemberAssignmentStored:
    assigned = (Assigned(FOO, numbers, (epoch,) * len(numbers)),) if numbers else ()
    asked = (Assigned(FOO, pending, (epoch,) * len(pending)),) if pending else ()
    state = MemberState.UNREVOKED_PARTITIONS if pending else MemberState.STABLE
    return MemberAssignmentStored("g", member_id, epoch, epoch - 1, state, assigned, asked, CAUSE)


def folded(*events: HardEvent) -> Shard:
    shard = Shard(GroupSettings())
    for event in events:
        apply(shard, event)
    return shard


def group_of(*events: HardEvent) -> ConsumerGroup:
    group = folded(*events).groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group


# -- each record and its tombstone


def test_member_is_as_in_its_record_and_removed_by_its_tombstone() -> None:
    classic = ClassicMemberMetadata(10_000, (("range", b""),))
    event = member_stored("A", instance_id="a", rack_id="r", server_assignor="uniform", subscribed_topic_regex="b.*")
    group = group_of(event, member_stored("C", classic=classic))
    member = group.members["A"]
    assert (member.instance_id, member.rack_id, member.server_assignor) == ("a", "r", "uniform")
    assert (group.natives, group.classic_protocols, group.subscribers["foo"]) == (1, {"range": 1}, 2)
    after = group_of(event, member_stored("C", classic=classic), *(ConsumerMemberDeleted("g", m, CAUSE) for m in "AC"))
    assert not any((after.members, after.natives, after.classic_protocols, after.subscribers, after.static_members))
    assert not after.regex_subscribers
    assert not after.assignors


def test_groups_record_is_its_epoch_and_its_tombstone_the_end_of_it() -> None:
    group = group_of(ConsumerGroupStored("g", 7, 99, CAUSE))
    assert (group.epoch, group.metadata_hash) == (7, 99)
    assert not folded(ConsumerGroupStored("g", 7, 99, CAUSE), ConsumerGroupDeleted("g", CAUSE)).groups


def test_targets_record_is_its_epoch_and_its_tombstone_no_target() -> None:
    group = group_of(TargetStored("g", 7, 5_000, CAUSE))
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (7, 5_000)
    group = group_of(TargetStored("g", 7, 5_000, CAUSE), TargetDeleted("g", CAUSE))
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (-1, 0)


def test_members_target_and_its_tombstone() -> None:
    group = group_of(member_stored("A"), MemberTargetStored("g", "A", parts("foo-1,2"), CAUSE))
    assert (group.members["A"].target, group.claims) == (parts("foo-1,2"), {FOO: {1: "A", 2: "A"}})
    group = group_of(
        member_stored("A"), MemberTargetStored("g", "A", parts("foo-1,2"), CAUSE), MemberTargetDeleted("g", "A", CAUSE)
    )
    assert (group.members["A"].target, group.claims) == ((), {})


def test_members_assignment_and_its_tombstone() -> None:
    group = group_of(member_stored("A"), has("A", 5, 1, 2, pending=(3,)))
    member = group.members["A"]
    assert (member.epoch, member.previous_epoch, member.state) == (5, 4, MemberState.UNREVOKED_PARTITIONS)
    assert group.owners == {FOO: {1: "A", 2: "A", 3: "A"}}
    group = group_of(member_stored("A"), has("A", 5, 1, 2, pending=(3,)), MemberAssignmentDeleted("g", "A", CAUSE))
    assert (group.members["A"].epoch, group.members["A"].assigned, group.owners) == (0, (), {})


def test_expression_and_its_tombstone() -> None:
    event = RegexStored("g", "f.*", ("foo",), 1, 5, CAUSE)
    assert group_of(event).regexes == {"f.*": event}
    assert group_of(event, RegexDeleted("g", "f.*", CAUSE)).regexes == {}


@pytest.mark.parametrize(
    "tombstone",
    [
        ConsumerGroupDeleted("g", CAUSE),
        PartitionMetadataDeleted("g", CAUSE),
        ConsumerMemberDeleted("g", "A", CAUSE),
        TargetDeleted("g", CAUSE),
        MemberTargetDeleted("g", "A", CAUSE),
        MemberAssignmentDeleted("g", "A", CAUSE),
        RegexDeleted("g", "f.*", CAUSE),
    ],
)
def test_tombstone_of_what_is_not_known_means_nothing(tombstone: ConsumerHardEvent) -> None:
    assert not folded(tombstone).groups
    classic = GroupStored("g", "consumer", 3, None, None, 0, (), CAUSE)
    assert folded(classic, tombstone).classic_group("g").generation == 3
    if not isinstance(tombstone, ConsumerGroupDeleted | TargetDeleted):
        assert group_of(member_stored("B"), tombstone).members.keys() == {"B"}


# -- what compaction leaves


def test_what_a_member_owns_may_be_read_before_what_it_is() -> None:
    shard = folded(has("A", 5, 1), MemberTargetStored("g", "A", parts("foo-1"), CAUSE), member_stored("A"))
    assert violations(shard) == ["EpochMonotone: g: A at epoch 5 in a group of epoch 1"]
    apply(shard, ConsumerGroupStored("g", 5, 0, CAUSE))
    apply(shard, TargetStored("g", 5, 0, CAUSE))
    assert not violations(shard)
    group = shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert not group.unsettled


def test_partition_granted_before_the_record_by_which_another_gave_it_up_is_the_new_owners() -> None:
    # A had 1 in epoch 5 and gave it up in a record that compaction has taken away.
    events = [member_stored("A"), member_stored("B"), has("A", 5, 1, 2), has("B", 6, 1)]
    assert group_of(*events).owners == {FOO: {1: "B", 2: "A"}}
    assert group_of(*events, has("A", 9, 2)).owners == {FOO: {1: "B", 2: "A"}}
    assert group_of(*events, ConsumerMemberDeleted("g", "A", CAUSE)).owners == {FOO: {1: "B"}}


def test_partition_that_went_to_another_and_back_is_the_first_ones() -> None:
    # B gave 1 up again in a record that is gone.
    events = [member_stored("A"), member_stored("B"), has("A", 5, 1), has("B", 6, 1), has("A", 7, 1)]
    assert group_of(*events).owners == {FOO: {1: "A"}}
    assert group_of(*events, has("B", 8, 3)).owners == {FOO: {1: "A", 3: "B"}}


def test_target_that_went_to_another_is_the_new_ones() -> None:
    events = [
        member_stored("A"),
        member_stored("B"),
        *(MemberTargetStored("g", m, parts("foo-1"), CAUSE) for m in "AB"),
    ]
    assert group_of(*events).claims == {FOO: {1: "B"}}
    assert group_of(*events, MemberTargetStored("g", "A", (), CAUSE)).claims == {FOO: {1: "B"}}


def test_members_tombstone_frees_everything_whatever_is_left_of_the_others() -> None:
    group = group_of(
        member_stored("A"), has("A", 5, 1), MemberTargetStored("g", "A", parts("foo-1"), CAUSE), member_stored("B")
    )
    assert group.owners
    group = group_of(
        member_stored("A"),
        has("A", 5, 1),
        MemberTargetStored("g", "A", parts("foo-1"), CAUSE),
        ConsumerMemberDeleted("g", "A", CAUSE),
        MemberAssignmentDeleted("g", "A", CAUSE),
        MemberTargetDeleted("g", "A", CAUSE),
    )
    assert (group.members, group.owners, group.claims) == ({}, {}, {})


def test_simple_group_gives_way_to_a_consumer_group_and_comes_back_after_it() -> None:
    offset = OffsetCommitted("g", "foo", 0, 7, -1, "", 0)
    shard = folded(offset, member_stored("A"))
    assert isinstance(shard.groups["g"], ConsumerGroup)
    apply(shard, ConsumerMemberDeleted("g", "A", CAUSE))
    apply(shard, ConsumerGroupDeleted("g", CAUSE))
    assert shard.classic_group("g").is_simple


def test_classic_groups_tombstone_means_nothing_to_a_consumer_group() -> None:
    assert group_of(member_stored("A"), GroupDeleted("g", CAUSE)).members.keys() == {"A"}


def test_classic_group_takes_the_place_of_an_empty_consumer_group() -> None:
    classic = GroupStored("g", "consumer", 3, None, None, 0, (), CAUSE)
    assert folded(ConsumerGroupStored("g", 2, 0, CAUSE), classic).classic_group("g").generation == 3


def test_group_that_was_deleted_unseen_begins_anew_with_a_smaller_epoch() -> None:
    assert group_of(ConsumerGroupStored("g", 7, 0, CAUSE), ConsumerGroupStored("g", 2, 0, CAUSE)).epoch == 2


# -- what no log can hold


def test_epoch_of_a_group_never_goes_back() -> None:
    joined = Cause(CauseKind.MEMBER_JOINED, 1)
    with pytest.raises(AssertionError, match="epochs only grow"):
        group_of(ConsumerGroupStored("g", 7, 0, joined), ConsumerGroupStored("g", 6, 0, joined))


def test_group_with_members_is_never_deleted() -> None:
    with pytest.raises(AssertionError, match="members"):
        folded(member_stored("A"), ConsumerGroupDeleted("g", CAUSE))


def test_consumer_group_with_members_never_becomes_classic_without_their_tombstones() -> None:
    with pytest.raises(AssertionError, match="becomes no classic one"):
        folded(member_stored("A"), GroupStored("g", "consumer", 3, None, None, 0, (), CAUSE))
