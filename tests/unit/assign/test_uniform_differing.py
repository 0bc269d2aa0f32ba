"""`uniform` where subscriptions differ: Kafka's UniformHeterogeneousAssignmentBuilderTest, in our words; and racks."""

from __future__ import annotations

from tests.unit.assign.server.test_uniform import uniform
from tests.unit.assign.server_groups import again, group, member, texts

from kohort.assign.quality import measure_target


def test_members_without_subscriptions_get_nothing() -> None:
    assert texts(uniform(group({"a": member(""), "b": member("t")}, t=2))) == {"a": "", "b": "t-0 t-1"}


def test_topics_that_do_not_exist_are_not_assigned() -> None:
    assert texts(uniform(group({"a": member("gone"), "b": member("lost")}, t=3))) == {"a": "", "b": ""}


def test_a_topic_without_partitions_is_not_assigned() -> None:
    assert texts(uniform(group({"a": member("t"), "b": member("t u")}, t=2, u=0))) == {"a": "t-0", "b": "t-1"}


def test_who_has_a_topic_alone_gets_less_of_the_shared_one() -> None:
    given = group({"a": member("t u"), "b": member("u")}, t=3, u=6)
    assert texts(uniform(given)) == {"a": "t-0 t-1 t-2 u-0 u-1", "b": "u-2 u-3 u-4 u-5"}


def test_with_more_subscribers_than_partitions_some_get_nothing() -> None:
    given = group({"a": member("u"), "b": member("u"), "c": member("t")}, t=2, u=1)
    assert texts(uniform(given)) == {"a": "u-0", "b": "", "c": "t-0 t-1"}


def test_an_uneven_target_is_levelled_along_chains_of_members() -> None:
    given = group(
        {
            "a": member("t", "t-0 t-1 t-2"),
            "b": member("t u", "t-3 u-0"),
            "c": member("t u v", "t-4 t-5 u-1 u-2 u-3 v-0 v-1 v-2 v-3"),
        },
        t=6,
        u=4,
        v=4,
    )
    target = uniform(given)
    assert sorted(len(text.split()) for text in texts(target).values()) == [4, 5, 5]
    # Kafka's moves as many to reach 4, 5 and 5.
    assert measure_target(given, target).moved == 4
    assert set(texts(target)["c"].split()) >= {"v-0", "v-1", "v-2", "v-3"}


def test_new_partitions_go_where_they_keep_the_loads_even() -> None:
    given = group(
        {
            "a": member("t v", "t-0 t-1 t-2 t-3 v-0 v-1"),
            "b": member("t u v w", "u-0 u-1 u-2 w-0 w-1 w-2"),
        },
        t=6,
        u=5,
        v=3,
        w=3,
    )
    assert texts(uniform(given)) == {
        "a": "t-0 t-1 t-2 t-3 t-4 t-5 v-0 v-1 v-2",
        "b": "u-0 u-1 u-2 u-3 u-4 w-0 w-1 w-2",
    }


def test_a_member_that_joins_takes_from_the_fullest() -> None:
    given = group(
        {"a": member("t", "t-0 t-1 t-2 t-3"), "b": member("t u", "t-4 t-5 u-0 u-1 u-2 u-3"), "c": member("t u")},
        t=6,
        u=4,
    )
    target = uniform(given)
    assert sorted(len(text.split()) for text in texts(target).values()) == [3, 3, 4]
    assert measure_target(given, target).moved == 3


def test_what_a_member_leaves_behind_goes_to_its_subscribers() -> None:
    given = group({"a": member("t u"), "b": member("u"), "c": member("t u")}, t=4, u=5)
    target = uniform(given)
    left = again(given, target, b=None)
    after = uniform(left)
    assert measure_target(left, after).moved == 0
    assert all(set(target[name]) <= set(after[name]) or len(after[name]) for name in after)


def test_a_member_that_subscribes_to_less_keeps_what_it_may() -> None:
    given = group({"a": member("t", "t-0 u-0"), "b": member("t u", "t-1 u-1")}, t=2, u=2)
    assert texts(uniform(given)) == {"a": "t-0 t-1", "b": "u-0 u-1"}


def test_a_target_that_is_even_stays_the_same_object() -> None:
    given = group({"a": member("t u"), "b": member("u v"), "c": member("t u v")}, t=7, u=5, v=4)
    target = uniform(given)
    assert all(mine is target[name] for name, mine in uniform(again(given, target)).items())


def test_a_member_that_takes_anothers_place_takes_its_partitions() -> None:
    given = group({"a": member("t u"), "b": member("u v"), "c": member("u v"), "d": member("t v")}, t=8, u=5, v=7)
    target = uniform(given)
    replaced = uniform(again(given, target, b=None, z=member("u v")))
    assert replaced["z"] == target["b"]
    assert all(replaced[name] is target[name] for name in "acd")


def test_equal_subscriptions_that_are_not_the_same_object_make_one_class() -> None:
    given = group({name: member(topics) for name, topics in (("a", "t u"), ("b", "u t"), ("c", "t"))}, t=4, u=2)
    assert {name: len(each.split()) for name, each in texts(uniform(given)).items()} == {"a": 2, "b": 2, "c": 2}


# Racks


def test_members_get_partitions_that_have_a_replica_on_their_rack() -> None:
    given = group({"a": member("t", rack="r1"), "b": member("t", rack="r2")}, t="r2 r1 r2 r1")
    assert texts(uniform(given)) == {"a": "t-1 t-3", "b": "t-0 t-2"}


def test_racks_that_no_replica_is_on_make_no_difference() -> None:
    given = group({"a": member("t", rack="r8"), "b": member("t", rack="r9")}, t="r2 r1 r2 r1")
    assert texts(uniform(given)) == {"a": "t-0 t-2", "b": "t-1 t-3"}


def test_racks_that_hold_everything_make_no_difference() -> None:
    given = group({"a": member("t", "t-0", rack="r1"), "b": member("t", "t-1", rack="r2")}, t="r1,r2 r2,r1")
    target = uniform(given)
    assert texts(target) == {"a": "t-0", "b": "t-1"}
    assert all(target[name] is given.members[name].previous for name in target)


def test_balance_goes_before_racks() -> None:
    given = group({"a": member("t", rack="r1"), "b": member("t", rack="r2")}, t="r1 r1 r1 r1")
    assert {name: len(each.split()) for name, each in texts(uniform(given)).items()} == {"a": 2, "b": 2}


def test_a_partition_leaves_an_owner_that_is_far_only_for_one_that_is_near() -> None:
    swapped = group({"a": member("t", "t-0 t-1", rack="r1"), "b": member("t", "t-2 t-3", rack="r2")}, t="r1 r2 r1 r2")
    assert texts(uniform(swapped)) == {"a": "t-0 t-2", "b": "t-1 t-3"}
    nowhere = group({"a": member("t", "t-0 t-1", rack="r1"), "b": member("t", "t-2 t-3", rack="r2")}, t="r1 r3 r3 r2")
    target = uniform(nowhere)
    assert all(target[name] is nowhere.members[name].previous for name in target)


def test_a_member_without_a_rack_is_near_to_everything() -> None:
    given = group({"a": member("t", rack="r1"), "b": member("t")}, t="r1 r2 r1 r2")
    assert texts(uniform(given)) == {"a": "t-0 t-2", "b": "t-1 t-3"}


def test_what_one_circle_moves_may_open_the_way_for_another() -> None:
    given = group(
        {
            "m0": member("t u", rack="b"),
            "m1": member("t u", rack="a"),
            "m2": member("t u", rack="c"),
            "m3": member("t u", rack="a"),
            "m4": member("t u", rack="a"),
        },
        t="c a a,c a,b b a,b b,c a,b b a,c",
        u="c",
    )
    target = uniform(given)
    assert uniform(again(given, target)) == target
    assert measure_target(given, target).near == 11
