"""The sticky assignors where subscriptions differ: as even as can be, with as few moves, along chains of members."""

from __future__ import annotations

from tests.unit.assign.groups import group, member, rejoined, texts

from kohort.assign import CooperativeStickyAssignor, GroupSpec
from kohort.assign.quality import measure
from kohort.assign.spec import member_order
from kohort.assign.sticky_engine import Engine
from kohort.model.assignment import Assignment


def intended(spec: GroupSpec) -> dict[str, Assignment]:
    return engine(spec).eager()


def engine(spec: GroupSpec) -> Engine:
    order = member_order(spec)
    subscriptions = [spec.members[name].subscription for name in order]
    owned = [each.owned for each in subscriptions]
    return Engine(spec, order, subscriptions, owned, lambda place: subscriptions[place].generation)


def test_members_get_only_what_they_subscribed_to() -> None:
    spec = group({"a": member("t"), "b": member("u"), "c": member("t u")}, t=2, u=2)
    found = measure(spec, intended(spec))
    assert (found.is_valid, found.is_balanced, found.unassigned) == (True, True, frozenset())


def test_the_only_subscriber_of_a_topic_gets_it_and_no_other() -> None:
    spec = group({"a": member("t u"), "b": member("u")}, t=5, u=4)
    assert texts(intended(spec)) == {"a": "t-0 t-1 t-2 t-3 t-4", "b": "u-0 u-1 u-2 u-3"}


def test_an_empty_member_is_reached_through_others() -> None:
    # c wants u alone, which a does not have: b takes one of a's t, and gives up one of its u.
    spec = group({"a": member("t", "t-0 t-1 t-2"), "b": member("t u", "t-3 u-0"), "c": member("u")}, t=4, u=1)
    assert texts(intended(spec)) == {"a": "t-0 t-1", "b": "t-2 t-3", "c": "u-0"}


def test_a_longer_chain_is_taken_only_where_no_shorter_one_leads_there() -> None:
    spec = group(
        {"a": member("t u", "t-0 t-1 t-2 u-0"), "b": member("t", "t-3"), "c": member("u v", "v-0 v-1")}, t=4, u=1, v=2
    )
    found = intended(spec)
    assert measure(spec, found).moved == 1
    assert texts(found) == {"a": "t-0 t-1 u-0", "b": "t-2 t-3", "c": "v-0 v-1"}


def test_what_must_be_given_up_anyway_is_what_goes_to_another_class() -> None:
    # m2 is empty and its class may keep two each: what m1 has too many goes to m2 and to b, nothing else moves.
    spec = group({"m1": member("t", "t-0 t-1 t-2 t-3 t-4 t-5"), "m2": member("t"), "b": member("t u")}, t=6)
    found = intended(spec)
    assert measure(spec, found).moved == 4
    assert [len(each.partitions) for each in found.values()] == [2, 2, 2]


def test_a_free_partition_spares_a_member_from_giving_one_up() -> None:
    spec = group(
        {
            "m0": member("t", "t-3 t-4"),
            "m1": member("s t"),
            "m2": member("s t", "s-0 t-5"),
            "m3": member("s t", "t-1"),
            "m4": member("t", "t-0"),
        },
        s=1,
        t=6,
    )
    assert measure(spec, intended(spec)).moved == 0


def test_adding_a_topic_to_one_subscription_moves_nothing_else() -> None:
    # testNewSubscription
    before = group({"a": member("t"), "b": member("t u"), "c": member("u v")}, t=2, u=2, v=2)
    owned = rejoined(before, intended(before), 1)
    after = group(
        {
            name: member("t v" if name == "a" else " ".join(entry.subscription.topics), texts(intended(before))[name])
            for name, entry in owned.members.items()
        },
        t=2,
        u=2,
        v=2,
    )
    found = measure(after, intended(after))
    assert (found.moved, found.is_balanced) == (0, True)


def test_the_second_round_of_a_cooperative_move_ends_it() -> None:
    spec = group({"a": member("t u", "t-0 t-1 t-2 t-3"), "b": member("u", "u-0"), "c": member("t")}, t=4, u=1)
    first = CooperativeStickyAssignor().assign(spec)
    assert texts(first) == {"a": "t-0 t-1", "b": "u-0", "c": ""}
    second = rejoined(spec, first, 2)
    assert texts(CooperativeStickyAssignor().assign(second)) == texts(intended(spec))
    third = rejoined(second, CooperativeStickyAssignor().assign(second), 3)
    assert CooperativeStickyAssignor().assign(third) == CooperativeStickyAssignor().assign(second)


def test_racks_are_matched_through_others_without_changing_a_load() -> None:
    spec = group(
        {"a": member("t", "t-0", rack="r1"), "b": member("t u", "t-1", rack="r2"), "c": member("u", "u-0", rack="r3")},
        t="r2 r1",
        u="r3",
    )
    assert texts(intended(spec)) == {"a": "t-1", "b": "t-0", "c": "u-0"}


def test_a_load_may_change_its_place_so_that_a_partition_comes_near() -> None:
    # d takes t-0 and is now the one with two; e, which was, gives t-2 to c.
    spec = group(
        {
            "c": member("t", "t-0", rack="r1"),
            "d": member("t", "t-1", rack="r2"),
            "e": member("t u", "t-2 u-0", rack="r1"),
        },
        t="r2 r2 r1",
        u="r1",
    )
    assert texts(intended(spec)) == {"c": "t-2", "d": "t-0 t-1", "e": "u-0"}


def test_a_newcomer_among_members_that_all_differ_takes_its_share_and_a_little_from_each() -> None:
    topics = [f"t{number}" for number in range(4)]
    members = {f"m-{each}": member(" ".join(other for other in topics if other != each)) for each in topics}
    before = group(members, **dict.fromkeys(topics, 10))
    owned = rejoined(before, intended(before), 1).members
    after = group({**owned, "new": member(" ".join(topics))}, **dict.fromkeys(topics, 10))
    found = measure(after, intended(after))
    assert (found.least, found.most, found.moved) == (8, 8, 8)


def test_one_member_that_owned_all_is_relieved_in_few_steps() -> None:
    topics = [f"t{number}" for number in range(20)]
    everything = " ".join(f"{topic}-{number}" for topic in topics for number in range(5))
    members = {f"m{topic}": member(" ".join(other for other in topics if other != topic)) for topic in topics[1:]}
    members["full"] = member(" ".join(topics), everything)
    spec = group(members, **dict.fromkeys(topics, 5))
    round_one = engine(spec)
    found = measure(spec, round_one.eager())
    assert (found.least, found.most, found.moved) == (5, 5, 95)
    assert round_one.steps <= 40
