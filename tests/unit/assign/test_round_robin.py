"""The round-robin assignor, rule by rule."""

from __future__ import annotations

from kohort.assign import GroupSpec, MemberSpec, RoundRobinAssignor, TopicSpec
from kohort.model.subscription import Subscription


def assigned(members: dict[str, tuple[str, ...]], topics: dict[str, int], **static: str) -> dict[str, list[str]]:
    specs = {name: MemberSpec(Subscription(wanted), static.get(name)) for name, wanted in members.items()}
    found = RoundRobinAssignor().assign(GroupSpec(specs, {topic: TopicSpec(count) for topic, count in topics.items()}))
    return {name: [str(held) for held in sorted(each.partitions)] for name, each in found.items()}


def test_partitions_of_all_topics_are_dealt_in_a_circle() -> None:
    found = assigned({"a": ("t", "u"), "b": ("t", "u")}, {"u": 2, "t": 3})
    assert found == {"a": ["t-0", "t-2", "u-1"], "b": ["t-1", "u-0"]}


def test_a_member_that_did_not_subscribe_is_passed_over_and_keeps_its_turn_for_later() -> None:
    found = assigned({"a": ("t",), "b": ("u",), "c": ("t", "u")}, {"t": 2, "u": 2})
    assert found == {"a": ["t-0"], "c": ["t-1", "u-1"], "b": ["u-0"]}


def test_static_members_are_dealt_to_first() -> None:
    assert assigned({"a": ("t",), "z": ("t",)}, {"t": 1}, z="i") == {"a": [], "z": ["t-0"]}


def test_topics_without_subscribers_are_left_out() -> None:
    assert assigned({"a": ("t",)}, {"s": 3, "t": 1}) == {"a": ["t-0"]}


def test_a_group_without_members_is_assigned_nothing() -> None:
    assert assigned({}, {"t": 3}) == {}
