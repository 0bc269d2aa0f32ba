"""The sticky assignors where all subscribe alike: even, sticky, and careful with contradicting claims.

Cases are Kafka's AbstractStickyAssignorTest's where it has them.
"""

from __future__ import annotations

import pytest
from tests.unit.assign.groups import group, member, partitions, rejoined, texts

from kohort.assign import Assignor, CooperativeStickyAssignor, GroupSpec, MemberSpec, StickyAssignor
from kohort.assign.user_data import encode_generation, encode_sticky
from kohort.model.assignment import Assignment
from kohort.model.subscription import Subscription


def cooperative(spec: GroupSpec) -> dict[str, str]:
    return texts(CooperativeStickyAssignor().assign(spec))


def remembering(spec: GroupSpec) -> GroupSpec:
    """Return the group with what its members own in the user data of `sticky` instead."""
    members = {}
    for name, entry in spec.members.items():
        held = entry.subscription
        memory = encode_sticky(held.owned, held.generation) if held.owned else None
        members[name] = MemberSpec(Subscription(held.topics, memory, rack=held.rack), entry.instance_id)
    return GroupSpec(members, spec.topics)


def sticky(spec: GroupSpec) -> dict[str, str]:
    return texts(StickyAssignor().assign(remembering(spec)))


def test_a_first_assignment_deals_each_topic_in_a_circle() -> None:
    spec = group({"a": member("t u"), "b": member("t u")}, t=3, u=3)
    assert cooperative(spec) == sticky(spec) == {"a": "t-0 t-2 u-1", "b": "t-1 u-0 u-2"}


def test_a_stable_group_keeps_what_it_has() -> None:
    spec = group({"a": member("t", "t-1 t-2"), "b": member("t", "t-0 t-3")}, t=4)
    assert cooperative(spec) == sticky(spec) == {"a": "t-1 t-2", "b": "t-0 t-3"}


def test_a_leaver_s_partitions_go_to_the_others_at_once() -> None:
    spec = group({"a": member("t", "t-0 t-1"), "b": member("t", "t-2 t-3")}, t=6)
    assert cooperative(spec) == sticky(spec) == {"a": "t-0 t-1 t-4", "b": "t-2 t-3 t-5"}


def test_a_newcomer_is_given_no_more_than_its_share_and_one_round_later() -> None:
    spec = group({"a": member("t", "t-0 t-1 t-2"), "b": member("t", "t-3 t-4 t-5"), "c": member("t")}, t=6)
    assert sticky(spec) == {"a": "t-0 t-1", "b": "t-3 t-4", "c": "t-2 t-5"}
    first = CooperativeStickyAssignor().assign(spec)
    assert texts(first) == {"a": "t-0 t-1", "b": "t-3 t-4", "c": ""}
    assert cooperative(rejoined(spec, first, 2)) == {"a": "t-0 t-1", "b": "t-3 t-4", "c": "t-2 t-5"}


def test_a_member_gives_up_some_of_every_topic() -> None:
    spec = group({"a": member("t u", "t-0 t-1 u-0 u-1"), "b": member("t u")}, t=2, u=2)
    assert sticky(spec) == {"a": "t-0 u-0", "b": "t-1 u-1"}


def test_the_member_that_owns_more_keeps_the_partition_that_does_not_divide_evenly() -> None:
    spec = group({"a": member("t", "t-0"), "b": member("t", "t-1 t-2")}, t=3)
    assert sticky(spec) == {"a": "t-0", "b": "t-1 t-2"}


def test_a_deleted_topic_is_not_assigned_by_sticky_and_left_with_its_owner_by_cooperative_sticky() -> None:
    spec = group({"a": member("gone t", "gone-0 t-0"), "b": member("gone t", "t-1")}, t=2)
    assert sticky(spec) == {"a": "t-0", "b": "t-1"}
    assert cooperative(spec) == {"a": "gone-0 t-0", "b": "t-1"}


def test_owned_partitions_of_a_stale_generation_count_only_where_no_other_member_claims_them() -> None:
    # testOwnedPartitionsAreInvalidatedForConsumerWithStaleGeneration
    spec = group(
        {
            "a": member("t u", "t-0 t-2 u-1", generation=10),
            "b": member("t u", "t-0 t-2 u-1", generation=5),
        },
        t=3,
        u=3,
    )
    assert sticky(spec) == cooperative(spec) == {"a": "t-0 t-2 u-1", "b": "t-1 u-0 u-2"}


def test_a_claim_without_generation_loses_to_one_with() -> None:
    # testOwnedPartitionsAreInvalidatedForConsumerWithNoGeneration
    spec = group({"a": member("t", "t-0 t-1", generation=-1), "b": member("t", "t-0 t-1", generation=1)}, t=4)
    assert sticky(spec) == cooperative(spec) == {"a": "t-2 t-3", "b": "t-0 t-1"}


def test_a_generation_in_the_user_data_counts_where_the_subscription_has_none() -> None:
    members = {
        "a": member("t", "t-0", generation=-1, user_data=encode_generation(3), version=1),
        "b": member("t", "t-0", generation=-1, user_data=b"", version=1),
    }
    assert cooperative(group(members, t=2)) == {"a": "t-0", "b": "t-1"}


def test_the_highest_of_three_generations_wins() -> None:
    # testEnsurePartitionsAssignedToHighestGeneration
    spec = group(
        {
            "a": member("t u v", "t-0 u-0 v-0", generation=10),
            "b": member("t u v", "t-0 u-0 v-0", generation=8),
            "c": member("t u v", "t-0 u-0 v-0", generation=9),
        },
        t=3,
        u=3,
        v=3,
    )
    for found in (sticky(spec), cooperative(spec)):
        assert found["a"] == "t-0 u-0 v-0"
        assert [len(each.split()) for each in found.values()] == [3, 3, 3]


def test_a_partition_claimed_twice_in_one_generation_has_no_owner_and_waits_a_round() -> None:
    # testPartitionsTransferringOwnershipIncludeThePartitionClaimedByMultipleConsumersInSameGeneration
    spec = group({"a": member("t", "t-0 t-1"), "b": member("t", "t-0 t-2"), "c": member("t")}, t=3)
    first = CooperativeStickyAssignor().assign(spec)
    assert texts(first) == {"a": "t-1", "b": "t-2", "c": ""}
    assert cooperative(rejoined(spec, first, 2)) == {"a": "t-1", "b": "t-2", "c": "t-0"}
    assert sticky(spec) == {"a": "t-1", "b": "t-2", "c": "t-0"}


def test_claims_of_many_generations_that_do_not_clash_all_stand() -> None:
    # testOwnedPartitionsAreStableForConsumerWithMultipleGeneration, testNoReassignmentOnCurrentMembers
    spec = group(
        {
            "a": member("t", "t-0", generation=1),
            "b": member("t", "t-3", generation=2),
            "c": member("t"),
            "d": member("t", "t-1", generation=3),
        },
        t=4,
    )
    assert sticky(spec) == cooperative(spec) == {"a": "t-0", "b": "t-3", "c": "t-2", "d": "t-1"}


def test_a_garbled_claim_is_no_claim() -> None:
    spec = group({"a": member("t", "t-0 t-0 t-7 x-0"), "b": member("t")}, t=2)
    assert sticky(spec) == {"a": "t-0", "b": "t-1"}


def test_a_partition_whose_owner_no_longer_subscribes_is_withheld_from_the_others() -> None:
    spec = group({"a": member("u", "t-0"), "b": member("t u")}, t=1, u=1)
    assert sticky(spec)["b"] == "t-0"
    assert cooperative(spec)["b"] == ""


def test_a_static_member_keeps_its_place_under_a_new_member_id() -> None:
    before = sticky(group({"x": member("t", instance="i"), "b": member("t", instance="j")}, t=3))
    after = sticky(group({"c": member("t", instance="i"), "b": member("t", instance="j")}, t=3))
    assert before["x"] == after["c"] == "t-0 t-2"


def test_members_near_a_replica_get_it_and_no_load_changes() -> None:
    spec = group(
        {"a": member("t", rack="r2"), "b": member("t", rack="r1"), "c": member("t", rack="r3")}, t="r1 r2 r3 r1 r2 r3"
    )
    assert sticky(spec) == cooperative(spec) == {"a": "t-1 t-4", "b": "t-0 t-3", "c": "t-2 t-5"}


def test_a_partition_that_is_far_moves_only_to_a_member_that_is_near() -> None:
    spec = group({"a": member("t", "t-0 t-1", rack="r1"), "b": member("t", "t-2 t-3", rack="r2")}, t="r2 r1 r1 r2")
    assert sticky(spec) == {"a": "t-1 t-2", "b": "t-0 t-3"}
    no_replica_near = group({"a": member("t", "t-0", rack="r1"), "b": member("t", "t-1", rack="r1")}, t="r2 r3 r1")
    assert sticky(no_replica_near) == {"a": "t-0 t-2", "b": "t-1"}


@pytest.mark.parametrize("assignor", [StickyAssignor(), CooperativeStickyAssignor()], ids=lambda each: each.name)
def test_a_group_without_members_is_assigned_nothing(assignor: Assignor) -> None:
    assert assignor.assign(group({}, t=3)) == {}


def test_more_members_than_partitions_leave_some_with_nothing() -> None:
    assert cooperative(group({"a": member("t"), "b": member("t")}, t=1)) == {"a": "t-0", "b": ""}


def test_a_member_of_sticky_remembers_its_last_assignment() -> None:
    assignor = StickyAssignor()
    assert assignor.user_data(["t"], frozenset(), -1) is None
    assignor.on_assignment(Assignment(frozenset(partitions("t-1 t-0"))), 4)
    assert assignor.user_data(["t"], frozenset(), -1) == encode_sticky(partitions("t-0 t-1"), 4)


def test_a_member_without_owned_partitions_in_its_version_has_revoked_everything() -> None:
    spec = group({"a": member("t", "t-0 t-1"), "old": member("t", version=0)}, t=3)
    assert cooperative(spec) == {"a": "t-0 t-1", "old": "t-2"}
