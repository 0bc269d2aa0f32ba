"""The measure of an assignment, on assignments whose merits are known."""

from __future__ import annotations

from tests.unit.assign.groups import group, member, partitions

from kohort.assign.quality import Quality, measure, pairwise_difference
from kohort.model.assignment import Assignment


def quality(spec_members: dict[str, str], topics: dict[str, int], **given: str) -> Quality:
    spec = group({name: member(wanted) for name, wanted in spec_members.items()}, **topics)
    return measure(spec, {name: Assignment(frozenset(partitions(text))) for name, text in given.items()})


def test_an_even_assignment_scores_0() -> None:
    found = quality({"a": "t", "b": "t"}, {"t": 2}, a="t-0", b="t-1")
    assert (found.is_valid, found.is_balanced, found.score, found.least, found.most) == (True, True, 0, 1, 1)


def test_the_score_is_the_sum_of_all_differences() -> None:
    assert pairwise_difference([4, 1, 2]) == 3 + 2 + 1


def test_a_difference_of_two_can_be_improved_where_subscriptions_allow() -> None:
    found = quality({"a": "t", "b": "t"}, {"t": 2}, a="t-0 t-1", b="")
    assert found.improvable == ("a", "b")
    assert quality({"a": "t", "b": "u"}, {"t": 2}, a="t-0 t-1", b="").is_balanced


def test_a_chain_through_a_third_member_is_seen() -> None:
    found = quality({"a": "t", "b": "t u", "c": "u"}, {"t": 3, "u": 1}, a="t-0 t-1", b="t-2 u-0", c="")
    assert found.improvable == ("a", "c")


def test_two_owners_an_unknown_member_and_an_unsubscribed_topic_are_faults() -> None:
    found = quality({"a": "t", "b": "u"}, {"t": 1, "u": 1}, a="t-0", b="t-0", z="")
    assert found.faults == (
        "z is no member",
        "t-0 is assigned to a and b",
        "t-0 is assigned to b, which did not subscribe to its topic",
    )
    assert quality({"a": "t"}, {"t": 1}).faults == ("a has no assignment",)


def test_what_is_left_over_is_named() -> None:
    assert quality({"a": "t"}, {"t": 2}, a="t-1").unassigned == set(partitions("t-0"))


def test_moves_are_counted_against_what_can_be_kept() -> None:
    spec = group({"a": member("t gone", "t-0 t-1 gone-0"), "b": member("t", "t-2")}, t=3)
    given = {"a": Assignment(frozenset(partitions("t-0"))), "b": Assignment(frozenset(partitions("t-1 t-2")))}
    assert measure(spec, given).moved == 1


def test_near_counts_partitions_with_a_replica_on_their_member_s_rack() -> None:
    spec = group({"a": member("t", rack="r1"), "b": member("t")}, t="r1 r2 r1")
    given = {"a": Assignment(frozenset(partitions("t-0 t-1"))), "b": Assignment(frozenset(partitions("t-2")))}
    assert measure(spec, given).near == 1


def test_weights_make_loads_relative() -> None:
    spec = group({"a": member("t"), "b": member("t")}, t=4)
    given = {"a": Assignment(frozenset(partitions("t-0"))), "b": Assignment(frozenset(partitions("t-1 t-2 t-3")))}
    assert measure(spec, given, weights={"a": 1, "b": 3}).is_balanced
    assert not measure(spec, given, weights={"a": 3, "b": 1}).is_balanced
