"""What every assignor owes its group: each partition to exactly one subscriber, fair shares, no surprise.

And what the sticky ones owe it besides: the best balance there is, the fewest moves that lead to it, both rounds of
every move, and an end. `fewest_moves` finds the best of all assignments by a slow and simple way.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kohort.assign import (
    Assignor,
    CapacityAssignor,
    CooperativeStickyAssignor,
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    TopicSpec,
)
from kohort.assign.cooperative import broken_rules, two_step
from kohort.assign.quality import measure
from kohort.assign.spec import member_order
from kohort.assign.sticky_engine import Engine
from kohort.assign.user_data import encode_weight
from kohort.model.assignment import Assignment, Partitions
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription

ASSIGNORS: list[Assignor] = [
    RangeAssignor(),
    RoundRobinAssignor(),
    StickyAssignor(),
    CooperativeStickyAssignor(),
    CapacityAssignor(),
]
TOPICS = [f"t{number}" for number in range(5)]
RACKS = ["r1", "r2", "r3"]


@st.composite
def topic_specs(draw: st.DrawFn) -> TopicSpec:
    racks = draw(st.lists(st.frozensets(st.sampled_from(RACKS), min_size=1), min_size=1, max_size=12))
    return TopicSpec(len(racks), tuple(racks) if draw(st.booleans()) else ())


@st.composite
def groups(draw: st.DrawFn, *, is_uniform: bool = False) -> GroupSpec:
    names = draw(st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=8, unique=True))
    all_topics = tuple(draw(st.lists(st.sampled_from(TOPICS), min_size=1, unique=True)))
    members = {}
    for name in names:
        topics = all_topics if is_uniform else tuple(draw(st.lists(st.sampled_from(TOPICS), unique=True)))
        rack = draw(st.none() | st.sampled_from(RACKS))
        members[name] = MemberSpec(Subscription(topics, rack=rack), f"i-{name}" if draw(st.booleans()) else None)
    return GroupSpec(members, draw(st.dictionaries(st.sampled_from(TOPICS), topic_specs())))


class TestEveryAssignor:
    @given(group=groups())
    def test_every_wanted_partition_has_exactly_one_owner_that_subscribed_to_it(self, group: GroupSpec) -> None:
        wanted = {topic for member in group.members.values() for topic in member.subscription.topics}
        everything = {
            TopicPartition(topic, number)
            for topic, spec in group.topics.items()
            if topic in wanted
            for number in range(spec.partitions)
        }
        for assignor in ASSIGNORS:
            found = assignor.assign(group)
            assert found.keys() == group.members.keys(), assignor.name
            owners = Counter(held for each in found.values() for held in each.partitions)
            assert owners == dict.fromkeys(everything, 1), assignor.name
            for name, each in found.items():
                topics = {held.topic for held in each.partitions}
                assert topics <= set(group.members[name].subscription.topics), assignor.name

    @given(group=groups(), seed=st.randoms(use_true_random=False))
    def test_the_order_in_which_members_and_topics_are_listed_changes_nothing(
        self, group: GroupSpec, seed: object
    ) -> None:
        members, topics = list(group.members.items()), list(group.topics.items())
        seed.shuffle(members)  # type: ignore[attr-defined]
        seed.shuffle(topics)  # type: ignore[attr-defined]
        shuffled = GroupSpec(dict(members), dict(topics))
        for assignor in ASSIGNORS:
            assert assignor.assign(shuffled) == assignor.assign(group), assignor.name


@given(group=groups())
def test_range_gives_each_subscriber_of_a_topic_the_floor_or_one_more(group: GroupSpec) -> None:
    found = RangeAssignor().assign(group)
    for topic, spec in group.topics.items():
        subscribers = [name for name, member in group.members.items() if topic in member.subscription.topics]
        shares = [sum(held.topic == topic for held in found[name].partitions) for name in subscribers]
        if subscribers:
            assert max(shares) - min(shares) <= 1
            assert sum(share > spec.partitions // len(subscribers) for share in shares) == spec.partitions % len(shares)


@given(group=groups(is_uniform=True))
def test_round_robin_is_even_over_all_topics_where_all_subscribe_alike(group: GroupSpec) -> None:
    shares = [len(each.partitions) for each in RoundRobinAssignor().assign(group).values()]
    assert max(shares) - min(shares) <= 1


@given(group=groups(is_uniform=True))
def test_range_blocks_are_contiguous_where_racks_do_not_matter(group: GroupSpec) -> None:
    plain = GroupSpec(group.members, {topic: TopicSpec(spec.partitions) for topic, spec in group.topics.items()})
    for each in RangeAssignor().assign(plain).values():
        for topic in group.topics:
            numbers = sorted(held.partition for held in each.partitions if held.topic == topic)
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True


@st.composite
def owning_groups(
    draw: st.DrawFn, *, is_uniform: bool = False, is_contested: bool = False, has_racks: bool = False
) -> GroupSpec:
    """Draw a group that has met before: its members own partitions, some of them unknown or unwanted by now."""
    group = draw(groups(is_uniform=is_uniform))
    everything = [TopicPartition(topic, n) for topic in TOPICS for n in range(draw(st.integers(0, 6)))]
    owners = [draw(st.sampled_from([None, *group.members])) for _ in everything]
    members = {}
    for name, member in group.members.items():
        held = [partition for partition, owner in zip(everything, owners, strict=True) if owner == name]
        if is_contested and everything:
            held += draw(st.lists(st.sampled_from(everything), max_size=3))
        rack = member.subscription.rack if has_racks else None
        generation = draw(st.integers(-1, 2)) if is_contested else 1
        subscription = Subscription(member.subscription.topics, None, tuple(held), generation, rack)
        members[name] = MemberSpec(subscription, member.instance_id)
    return GroupSpec(members, group.topics)


def engine(group: GroupSpec) -> Engine:
    order = member_order(group)
    subscriptions = [group.members[name].subscription for name in order]
    owned = [each.owned for each in subscriptions]
    return Engine(group, order, subscriptions, owned, lambda place: subscriptions[place].generation)


def can_keep(group: GroupSpec) -> dict[str, Partitions]:
    """Return what each member owns, exists and is subscribed to by it; no partition is claimed twice."""
    return {
        name: frozenset(
            held
            for held in member.subscription.owned
            if held.topic in member.subscription.topics
            and held.topic in group.topics
            and held.partition < group.topics[held.topic].partitions
        )
        for name, member in group.members.items()
    }


def fewest_moves(group: GroupSpec) -> int:
    """Return how many partitions must move in the best of the most even assignments: one shortest path for each."""
    owner = {held: name for name, mine in can_keep(group).items() for held in mine}
    takers = {
        TopicPartition(topic, number): [
            name for name in sorted(group.members) if topic in group.members[name].subscription.topics
        ]
        for topic, each in group.topics.items()
        for number in range(each.partitions)
    }

    def price(held: TopicPartition, name: str) -> int:
        return 0 if owner.get(held, name) == name else 1

    at: dict[TopicPartition, str] = {}
    load = dict.fromkeys(group.members, 0)
    for new in [held for held, names in takers.items() if names]:
        far = {name: price(new, name) for name in takers[new]}
        came: dict[str, tuple[str | None, TopicPartition]] = dict.fromkeys(far, (None, new))
        is_settled = False
        while not is_settled:
            is_settled = True
            for held, name in at.items():
                for taker in takers[held] if name in far else []:
                    cost = far[name] - price(held, name) + price(held, taker)
                    if cost < far.get(taker, cost + 1):
                        far[taker], came[taker], is_settled = cost, (name, held), False
        end: str | None = min(far, key=lambda name: (load[name], far[name], name))
        assert end is not None
        load[end] += 1
        while end is not None:
            end_of, held = came[end]
            at[held] = end
            end = end_of
    return sum(price(held, name) for held, name in at.items())


class TestTheStickyEngine:
    @given(group=owning_groups(is_contested=True, has_racks=True))
    def test_it_is_valid_and_no_move_could_make_it_more_even(self, group: GroupSpec) -> None:
        found = measure(group, engine(group).eager())
        assert (found.faults, found.improvable, found.unassigned) == ((), None, frozenset())

    @given(group=owning_groups(is_uniform=True))
    def test_where_all_subscribe_alike_it_moves_exactly_what_is_too_much(self, group: GroupSpec) -> None:
        keep = can_keep(group)
        total = sum(
            each.partitions
            for topic, each in group.topics.items()
            if any(topic in member.subscription.topics for member in group.members.values())
        )
        share, extras = divmod(total, len(group.members))
        too_many = [max(0, len(mine) - share) for mine in keep.values()]
        spared = min(extras, sum(count > 0 for count in too_many))
        assert measure(group, engine(group).eager(), owned=keep).moved == sum(too_many) - spared

    @given(group=owning_groups())
    def test_where_they_do_not_it_moves_hardly_more_than_must_move(self, group: GroupSpec) -> None:
        found = measure(group, engine(group).eager(), owned=can_keep(group))
        # The best there is, but for one partition in a few groups of a thousand.
        assert found.moved <= fewest_moves(group) + 1

    @given(group=owning_groups(is_contested=True, has_racks=True))
    def test_its_cooperative_round_is_the_two_step_rule_applied_to_what_it_intends(self, group: GroupSpec) -> None:
        assert engine(group).cooperative() == two_step(group, engine(group).eager())

    @given(group=owning_groups(is_contested=True))
    def test_cooperative_rounds_assign_no_owned_partition_to_another_and_end_with_the_second(
        self, group: GroupSpec
    ) -> None:
        assert settle(group) <= 2

    @given(group=owning_groups(is_contested=True, has_racks=True))
    def test_cooperative_rounds_that_bring_partitions_near_end_with_the_third(self, group: GroupSpec) -> None:
        # What was withheld is free in the second: then a nearer match may be found, in one group of sixty.
        assert settle(group) <= 3

    @given(group=owning_groups(is_contested=True, has_racks=True))
    def test_it_ends_within_the_steps_that_it_counts(self, group: GroupSpec) -> None:
        round_one = engine(group)
        round_one.eager()
        partitions = sum(each.partitions for each in group.topics.values())
        assert round_one.steps <= 2 * (partitions + len(group.members))

    @given(group=owning_groups(is_contested=True, has_racks=True))
    def test_an_assignment_that_is_owned_by_now_is_not_touched(self, group: GroupSpec) -> None:
        first = engine(group).eager()
        assert engine(rejoined(group, first)).eager() == first

    @given(group=owning_groups(is_uniform=True), data=st.data())
    def test_static_members_that_restart_under_new_ids_change_nothing(
        self, group: GroupSpec, data: st.DataObject
    ) -> None:
        static = {name: MemberSpec(each.subscription, f"i-{name}") for name, each in group.members.items()}
        renamed = {f"new-{data.draw(st.integers(0, 99))}-{name}": each for name, each in static.items()}
        before = engine(GroupSpec(static, group.topics)).eager()
        after = engine(GroupSpec(renamed, group.topics)).eager()
        assert {name.split("-")[2]: each for name, each in after.items()} == before


@given(group=owning_groups(), weights=st.lists(st.integers(1, 9), min_size=8, max_size=8))
def test_capacity_is_as_near_to_the_weights_as_moves_can_bring_it(group: GroupSpec, weights: list[int]) -> None:
    weight_of = dict(zip(sorted(group.members), weights, strict=False))
    members = {
        name: MemberSpec(Subscription(each.subscription.topics, encode_weight(weight_of[name])), each.instance_id)
        for name, each in group.members.items()
    }
    weighted = GroupSpec(members, group.topics)
    found = measure(weighted, CapacityAssignor().assign(weighted), weights=weight_of)
    assert (found.faults, found.improvable, found.unassigned) == ((), None, frozenset())


def settle(group: GroupSpec) -> int:
    """Return how many cooperative rounds lead to an assignment that stays; each must follow the two-step rule."""
    found: dict[str, Assignment] | None = None
    for rounds in range(10):
        before, found = found, CooperativeStickyAssignor().assign(group)
        assert broken_rules(group, found) == ()
        if found == before:
            return rounds
        group = rejoined(group, found)
    raise AssertionError("ten rounds, and no end")


def rejoined(group: GroupSpec, assignments: dict[str, Assignment]) -> GroupSpec:
    """Return the group as it joins again, each member owning what it was assigned and what it may still hold."""
    members = {}
    for name, member in group.members.items():
        held = member.subscription
        owned = tuple(sorted(assignments[name].partitions))
        members[name] = MemberSpec(Subscription(held.topics, None, owned, 3, held.rack), member.instance_id)
    return GroupSpec(members, group.topics)
