"""`uniform` where all members subscribe alike: Kafka's UniformHomogeneousAssignmentBuilderTest, in our words."""

from __future__ import annotations

import pytest
from tests.unit.assign.server_groups import again, group, held, member, texts

from kohort.assign.quality import measure_target
from kohort.assign.server import even_dealing
from kohort.assign.server.spec import ServerGroup
from kohort.assign.server.uniform import UniformAssignor
from kohort.model.assignment import IdPartitions, size


def uniform(given: ServerGroup) -> dict[str, IdPartitions]:
    """Assign, and see that the target is valid, complete and even."""
    target = UniformAssignor().assign(given)
    quality = measure_target(given, target)
    assert (quality.faults, quality.improvable, quality.unassigned) == ((), None, frozenset())
    return target


def test_a_group_without_members_has_no_targets() -> None:
    assert UniformAssignor().assign(group({}, t=3)) == {}


def test_a_member_without_a_subscription_gets_nothing() -> None:
    assert texts(uniform(group({"a": member("")}, t=3))) == {"a": ""}


def test_a_topic_that_does_not_exist_is_not_assigned() -> None:
    assert texts(uniform(group({"a": member("gone"), "b": member("gone")}, t=3))) == {"a": "", "b": ""}


def test_unassigned_partitions_of_each_topic_are_spread_over_members() -> None:
    assert texts(uniform(group({"a": member("t u"), "b": member("t u")}, t=3, u=2))) == {
        "a": "t-0 t-2 u-1",
        "b": "t-1 u-0",
    }


def test_with_more_members_than_partitions_the_last_get_nothing() -> None:
    assert texts(uniform(group({name: member("t") for name in "abc"}, t=2))) == {"a": "t-0", "b": "t-1", "c": ""}


def test_a_large_group_is_even() -> None:
    topics = {f"t{number}": 3 for number in range(100)}
    given = group({f"m{number}": member(" ".join(topics)) for number in range(49)}, **topics)
    assert {size(each) for each in uniform(given).values()} == {6, 7}


def test_an_uneven_target_loses_just_what_is_too_much() -> None:
    given = group({"a": member("t u", "t-0 t-1 u-0 u-1"), "b": member("t u", "t-2 u-2")}, t=3, u=3)
    assert texts(uniform(given)) == {"a": "t-0 t-1 u-0", "b": "t-2 u-1 u-2"}


def test_new_partitions_go_to_the_emptiest_and_nothing_moves() -> None:
    given = group({"a": member("t u", "t-0 t-2 u-0"), "b": member("t u", "t-1 u-1 u-2")}, t=6, u=5)
    assert texts(uniform(given)) == {"a": "t-0 t-2 t-3 t-5 u-0 u-4", "b": "t-1 t-4 u-1 u-2 u-3"}


def test_a_member_that_joins_gets_its_share_and_no_other_gains() -> None:
    given = group({"a": member("t u", "t-0 t-2 u-0"), "b": member("t u", "t-1 u-1 u-2"), "c": member("t u")}, t=3, u=3)
    assert texts(uniform(given)) == {"a": "t-0 u-0", "b": "t-1 u-1", "c": "t-2 u-2"}


def test_what_a_member_leaves_behind_is_dealt_and_nothing_else_moves() -> None:
    given = group({"a": member("t u", "t-0 u-0"), "b": member("t u", "t-1 u-1")}, t=3, u=3)
    assert texts(uniform(given)) == {"a": "t-0 t-2 u-0", "b": "t-1 u-1 u-2"}


def test_a_topic_without_subscribers_is_dropped() -> None:
    given = group({"a": member("u", "t-0 t-2 u-0"), "b": member("u", "t-1 u-1 u-2")}, t=3, u=3)
    assert texts(uniform(given)) == {"a": "u-0", "b": "u-1 u-2"}


def test_partitions_that_are_gone_are_dropped() -> None:
    given = group({"a": member("t", "t-0 t-5"), "b": member("t", "t-1 t-6")}, t=3)
    assert texts(uniform(given)) == {"a": "t-0 t-2", "b": "t-1"}


def test_as_many_claims_as_partitions_may_still_be_the_wrong_ones() -> None:
    alone = group({"a": member("t", "t-1 t-2")}, t=2)
    assert texts(uniform(alone)) == {"a": "t-0 t-1"}
    two = group({"a": member("t", "t-0 t-3"), "b": member("t", "t-1 t-2")}, t=4)
    assert texts(uniform(two)) == {"a": "t-0 t-3", "b": "t-1 t-2"}
    off = group({"a": member("t", "t-0 t-4"), "b": member("t", "t-1 t-2")}, t=4)
    assert texts(uniform(off)) == {"a": "t-0 t-3", "b": "t-1 t-2"}


def test_of_two_claims_to_a_partition_the_first_members_counts() -> None:
    given = group({"a": member("t", "t-0"), "b": member("t", "t-0 t-1")}, t=2)
    assert texts(uniform(given)) == {"a": "t-0", "b": "t-1"}


def test_a_target_that_is_even_stays_the_same_object() -> None:
    given = group({name: member("t u") for name in "abc"}, t=7, u=5)
    target = uniform(given)
    settled = again(given, target)
    assert all(mine is target[name] for name, mine in uniform(settled).items())


def test_who_need_not_change_keeps_the_same_object_when_another_joins() -> None:
    given = group({name: member("t") for name in "abcd"}, t=8)
    target = uniform(given)
    joined = uniform(again(given, target, e=member("t")))
    assert [name for name, mine in target.items() if joined[name] is not mine] == ["d"]


@pytest.mark.parametrize("limit", [0, 4_096])
def test_a_member_that_takes_anothers_place_takes_its_partitions(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(even_dealing, "SPREAD_LIMIT", limit)
    given = group({f"m{number}": member("t u v") for number in range(9)}, t=10, u=11, v=12)
    target = uniform(given)
    replaced = uniform(again(given, target, m4=None, n4=member("t u v")))
    assert replaced["n4"] == target["m4"]
    assert all(replaced[name] is target[name] for name in replaced if name != "n4")


def test_a_static_member_under_a_new_id_gets_back_what_it_had() -> None:
    given = group({"a": member("t", instance="i"), "b": member("t")}, t=5)
    target = uniform(given)
    back = again(given, target, a=None, z=member("t", instance="i")._replace(previous=target["a"]))
    assert uniform(back) == {"z": target["a"], "b": target["b"]}


def test_the_order_of_members_and_topics_makes_no_difference() -> None:
    given = group({name: member("t u", previous) for name, previous in (("a", "t-0"), ("b", ""))}, t=3, u=3)
    turned = ServerGroup(dict(reversed(given.members.items())), dict(reversed(given.topics.items())), True)
    assert uniform(turned) == uniform(given)


def test_a_very_large_target_is_made_of_blocks() -> None:
    topics = {f"t{number:03}": 10 for number in range(500)}
    every = member(" ".join(topics))
    target = uniform(group({f"m{number:03}": every for number in range(300)}, **topics))
    assert sum(len(mine) for mine in target.values()) <= 300 + 500
    assert target["m000"] == held(
        " ".join(f"t000-{n}" for n in range(10)) + " " + " ".join(f"t001-{n}" for n in range(7))
    )
