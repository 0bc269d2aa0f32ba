"""The range assignor, rule by rule."""

from __future__ import annotations

from kohort.assign import GroupSpec, MemberSpec, RangeAssignor, TopicSpec
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription


def member(*topics: str, instance: str | None = None, rack: str | None = None) -> MemberSpec:
    return MemberSpec(Subscription(topics, rack=rack), instance)


def assigned(members: dict[str, MemberSpec], topics: dict[str, TopicSpec]) -> dict[str, list[str]]:
    found = RangeAssignor().assign(GroupSpec(members, topics))
    return {name: [str(held) for held in sorted(each.partitions)] for name, each in found.items()}


def test_the_first_members_get_what_does_not_divide() -> None:
    found = assigned({"a": member("t"), "b": member("t"), "c": member("t")}, {"t": TopicSpec(5)})
    assert found == {"a": ["t-0", "t-1"], "b": ["t-2", "t-3"], "c": ["t-4"]}


def test_every_topic_is_shared_out_by_itself() -> None:
    found = assigned({"a": member("t", "u"), "b": member("t", "u")}, {"t": TopicSpec(1), "u": TopicSpec(1)})
    assert found == {"a": ["t-0", "u-0"], "b": []}


def test_only_subscribers_share_a_topic() -> None:
    found = assigned(
        {"a": member("t"), "b": member("u"), "c": member("t", "u")}, {"t": TopicSpec(2), "u": TopicSpec(2)}
    )
    assert found == {"a": ["t-0"], "b": ["u-0"], "c": ["t-1", "u-1"]}


def test_more_members_than_partitions_leave_some_with_nothing() -> None:
    found = assigned({"a": member("t"), "b": member("t"), "c": member("t")}, {"t": TopicSpec(2)})
    assert found == {"a": ["t-0"], "b": ["t-1"], "c": []}


def test_static_members_come_first_in_the_order_of_their_instance_ids() -> None:
    members = {"a": member("t"), "z": member("t", instance="1"), "b": member("t", instance="2")}
    assert assigned(members, {"t": TopicSpec(3)}) == {"z": ["t-0"], "b": ["t-1"], "a": ["t-2"]}


def test_a_static_member_keeps_its_place_under_a_new_member_id() -> None:
    before = assigned({"a": member("t"), "m1": member("t", instance="i")}, {"t": TopicSpec(2)})
    after = assigned({"a": member("t"), "m2": member("t", instance="i")}, {"t": TopicSpec(2)})
    assert before["m1"] == after["m2"] == ["t-0"]


def test_a_topic_without_known_partitions_is_left_out() -> None:
    assert assigned({"a": member("t", "unknown")}, {"t": TopicSpec(1)}) == {"a": ["t-0"]}


def test_a_member_near_a_replica_gets_that_partition() -> None:
    racks = tuple(frozenset({rack}) for rack in ("r1", "r2", "r1", "r2"))
    members = {"a": member("t", rack="r2"), "b": member("t", rack="r1")}
    assert assigned(members, {"t": TopicSpec(4, racks)}) == {"a": ["t-1", "t-3"], "b": ["t-0", "t-2"]}


def test_racks_never_cost_balance() -> None:
    racks = (frozenset({"r1"}),) * 4
    members = {"a": member("t", rack="r2"), "b": member("t", rack="r1")}
    found = assigned(members, {"t": TopicSpec(4, racks)})
    assert {name: len(held) for name, held in found.items()} == {"a": 2, "b": 2}


def test_partitions_with_replicas_on_every_rack_are_shared_as_without_racks() -> None:
    racks = (frozenset({"r1", "r2"}),) * 4
    members = {"a": member("t", rack="r2"), "b": member("t", rack="r1")}
    assert assigned(members, {"t": TopicSpec(4, racks)}) == {"a": ["t-0", "t-1"], "b": ["t-2", "t-3"]}


def test_co_partitioned_topics_go_together_to_a_member_near_both() -> None:
    t = TopicSpec(2, (frozenset({"r1"}), frozenset({"r2"})))
    u = TopicSpec(2, (frozenset({"r1", "r2"}), frozenset({"r2"})))
    members = {"a": member("t", "u", rack="r2"), "b": member("t", "u", rack="r1")}
    assert assigned(members, {"t": t, "u": u}) == {"a": ["t-1", "u-1"], "b": ["t-0", "u-0"]}


def test_the_whole_assignment_is_one_value_of_plain_partitions() -> None:
    found = RangeAssignor().assign(GroupSpec({"a": member("t")}, {"t": TopicSpec(1)}))
    assert found["a"].partitions == frozenset({TopicPartition("t", 0)})
    assert found["a"].user_data is None
