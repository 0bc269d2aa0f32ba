"""What every assignor owes its group: each partition to exactly one subscriber, fair shares, no surprise."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.assign import (
    Assignor,
    CooperativeStickyAssignor,
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    TopicSpec,
)
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription

ASSIGNORS = [RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()]
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


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda each: each.name)
class TestEveryAssignor:
    @given(group=groups())
    def test_every_wanted_partition_has_exactly_one_owner_that_subscribed_to_it(
        self, assignor: Assignor, group: GroupSpec
    ) -> None:
        found = assignor.assign(group)
        assert found.keys() == group.members.keys()
        owners = Counter(held for each in found.values() for held in each.partitions)
        wanted = {topic for member in group.members.values() for topic in member.subscription.topics}
        everything = {
            TopicPartition(topic, number)
            for topic, spec in group.topics.items()
            if topic in wanted
            for number in range(spec.partitions)
        }
        assert set(owners) == everything
        assert all(count == 1 for count in owners.values())
        for name, each in found.items():
            assert {held.topic for held in each.partitions} <= set(group.members[name].subscription.topics)

    @given(group=groups(), seed=st.randoms(use_true_random=False))
    def test_the_order_in_which_members_and_topics_are_listed_changes_nothing(
        self, assignor: Assignor, group: GroupSpec, seed: object
    ) -> None:
        members, topics = list(group.members.items()), list(group.topics.items())
        seed.shuffle(members)  # type: ignore[attr-defined]
        seed.shuffle(topics)  # type: ignore[attr-defined]
        assert assignor.assign(GroupSpec(dict(members), dict(topics))) == assignor.assign(group)


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
