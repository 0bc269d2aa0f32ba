"""Partitions shared out by their loads: evenly, with few moves, and not at all where they are even enough."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from kohort.assign.by_load import TOLERANCE, by_load
from kohort.assign.spec import GroupSpec, MemberSpec, TopicSpec
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription


def spec(owned: dict[str, list[int]], partitions: int, topics: tuple[str, ...] = ("t",)) -> GroupSpec:
    members = {
        name: MemberSpec(Subscription(topics, owned=tuple(TopicPartition("t", each) for each in mine)))
        for name, mine in owned.items()
    }
    return GroupSpec(members, {topic: TopicSpec(partitions) for topic in topics})


def loads(*values: float) -> dict[TopicPartition, float]:
    return {TopicPartition("t", number): value for number, value in enumerate(values)}


def numbers(assigned: dict[str, Partitions]) -> dict[str, list[int]]:
    return {name: sorted(each.partition for each in mine) for name, mine in assigned.items()}


def test_the_heaviest_partitions_go_to_different_members() -> None:
    found = by_load(spec({"a": [], "b": []}, 4), loads(100, 90, 10, 5))
    assert numbers(found) == {"a": [0, 3], "b": [1, 2]}


def test_a_lagging_partition_keeps_its_owner_and_others_move_away() -> None:
    found = by_load(spec({"a": [0, 1, 2], "b": [3, 4, 5]}, 6), loads(1000, 50, 40, 10, 10, 10))
    assert numbers(found) == {"a": [0], "b": [1, 2, 3, 4, 5]}


def test_what_is_even_enough_stays() -> None:
    found = by_load(spec({"a": [0, 1], "b": [2, 3]}, 4), loads(55, 50, 48, 47))
    assert numbers(found) == {"a": [0, 1], "b": [2, 3]}


def test_partitions_without_load_are_shared_out_by_number() -> None:
    found = by_load(spec({"a": [], "b": [], "c": []}, 9), loads())
    assert sorted(map(len, found.values())) == [3, 3, 3]


def test_a_member_gets_only_what_it_subscribed_to() -> None:
    group = GroupSpec(
        {"a": MemberSpec(Subscription(("t",))), "b": MemberSpec(Subscription(("t", "u")))},
        {"t": TopicSpec(2), "u": TopicSpec(2)},
    )
    found = by_load(group, {TopicPartition("u", 0): 1000.0})
    assert all(each.topic == "t" for each in found["a"])
    assert sum(map(len, found.values())) == 4


def test_a_new_member_of_a_large_even_group_gets_its_part() -> None:
    even = {f"m{at}": [2 * at, 2 * at + 1] for at in range(10)}
    found = by_load(spec({**even, "new": []}, 20), dict.fromkeys(loads(*[0] * 20), 10.0))
    assert len(found["new"]) == 1
    assert sum(set(even[name]) != {each.partition for each in found[name]} for name in even) == 1


def test_a_few_records_of_lag_do_not_decide_who_gets_the_partitions() -> None:
    found = by_load(spec({"a": list(range(12)), "new": []}, 12), loads(3), idle=500)
    assert min(map(len, found.values())) >= 5


def test_a_move_between_others_makes_another_one_possible() -> None:
    topics = {"g": ("x", "y"), "a": ("x", "z"), "b": ("z",)}
    mine = {"g": [TopicPartition("x", 0), TopicPartition("x", 1)], "a": [TopicPartition("z", at) for at in range(10)]}
    group = GroupSpec(
        {name: MemberSpec(Subscription(each, owned=tuple(mine.get(name, ())))) for name, each in topics.items()},
        {"x": TopicSpec(2), "z": TopicSpec(10)},
    )
    found = by_load(group, {each: 60.0 if each.topic == "x" else 7.0 for each in [*mine["g"], *mine["a"]]})
    assert len([each for each in found["g"] if each.topic == "x"]) == 1


def test_no_members_get_nothing() -> None:
    assert by_load(spec({}, 3), loads(1, 2, 3)) == {}


_GROUPS = st.integers(1, 4).flatmap(
    lambda members: st.lists(st.tuples(st.integers(0, members), st.integers(0, 50)), min_size=1, max_size=7).map(
        lambda rows: (members, rows)
    )
)


@given(_GROUPS)
def test_every_partition_has_one_owner_and_no_single_move_helps(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, rows = drawn
    owned: dict[str, list[int]] = {f"m{number}": [] for number in range(count)}
    for number, (owner, _) in enumerate(rows):
        if owner < count:
            owned[f"m{owner}"].append(number)
    given_loads = loads(*(float(load) for _, load in rows))
    group = spec(owned, len(rows))
    found = by_load(group, given_loads)
    assert sorted(each.partition for mine in found.values() for each in mine) == list(range(len(rows)))
    assert by_load(_after(found, len(rows)), given_loads) == found, "what it gives stays as it is"
    weight = {name: sum(given_loads[each] for each in mine) for name, mine in found.items()}
    mean = sum(weight.values()) / count
    for giver, taker in product(found, found):
        if weight[giver] > mean * (1 + TOLERANCE) + 1 and giver != taker:
            for each in found[giver]:
                assert max(weight[giver] - given_loads[each], weight[taker] + given_loads[each]) >= weight[giver] - 1


def _after(found: dict[str, Partitions], partitions: int) -> GroupSpec:
    return spec({name: [each.partition for each in mine] for name, mine in found.items()}, partitions)


@given(st.lists(st.integers(1, 30), min_size=4, max_size=8))
def test_one_move_is_enough_where_one_is(values: list[int]) -> None:
    """All loads are even but for one partition that lies with the wrong member."""
    half = [float(each) for each in values]
    group = spec(
        {"a": [*range(len(half)), 2 * len(half)], "b": list(range(len(half), 2 * len(half)))}, 2 * len(half) + 1
    )
    heavy = sum(half) * 0.45
    found = by_load(group, loads(*half, *half, heavy))
    before = {"a": {*range(len(half)), 2 * len(half)}, "b": set(range(len(half), 2 * len(half)))}
    after = {name: set(mine) for name, mine in numbers(found).items()}
    assert len(before["a"] - after["a"]) <= 2
    assert not before["b"] - after["b"]
