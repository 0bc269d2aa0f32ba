"""The sticky assignors over several rounds: members go, come back with old claims, contradict one another.

The histories are those of Kafka's StickyAssignorTest and AbstractStickyAssignorTest.
"""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest
from tests.unit.assign.groups import group, member, partitions, rejoined

from kohort.assign import Assignor, CooperativeStickyAssignor, GroupSpec, MemberSpec, StickyAssignor
from kohort.assign.quality import measure
from kohort.assign.user_data import encode_sticky
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription

ASSIGNORS: list[Assignor] = [StickyAssignor(), CooperativeStickyAssignor()]
both = pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda assignor: assignor.name)
everywhere = pytest.mark.parametrize("is_uniform", [True, False], ids=["all subscribe alike", "each as it likes"])


def reporting_ownership(spec: GroupSpec) -> GroupSpec:
    """Return the group with owned partitions in both places: in the subscription and in the user data of sticky."""
    members = {}
    for name, entry in spec.members.items():
        held = entry.subscription
        memory = encode_sticky(held.owned, held.generation) if held.owned else None
        subscription = Subscription(held.topics, memory, held.owned, held.generation, held.rack, held.version)
        members[name] = MemberSpec(subscription, entry.instance_id)
    return GroupSpec(members, spec.topics)


def settled(assignor: Assignor, spec: GroupSpec, rounds: int = 2) -> dict[str, Partitions]:
    """Return what every member owns when nothing is withheld any more; each step on the way must be valid."""
    for generation in range(100, 100 + rounds):
        found = assignor.assign(reporting_ownership(spec))
        quality = measure(spec, found)
        assert quality.is_valid, quality.faults
        if not quality.unassigned:
            assert quality.is_balanced, quality.improvable
            return {name: each.partitions for name, each in found.items()}
        spec = rejoined(spec, found, generation)
    raise AssertionError("a cooperative move takes two rounds")


def owning(topics: str, held: Partitions, generation: int) -> MemberSpec:
    return member(topics, " ".join(map(str, sorted(held))), generation=generation)


def sizes(assignment: dict[str, Partitions]) -> list[int]:
    return [len(held) for _, held in sorted(assignment.items())]


@both
@everywhere
def test_a_member_that_comes_back_with_an_old_claim_takes_nothing_that_is_owned_since(
    assignor: Assignor, is_uniform: bool
) -> None:
    seconds = "t u" if is_uniform else "t"
    first = settled(assignor, group({"a": member("t u"), "b": member(seconds), "c": member("t u")}, t=6, u=6))
    assert sizes(first) == [4, 4, 4]
    without_c = {"a": owning("t u", first["a"], 1), "b": owning(seconds, first["b"], 1)}
    second = settled(assignor, group(without_c, t=6, u=6))
    assert sizes(second) == [6, 6]
    assert first["b"] <= second["b"]
    if is_uniform:
        assert first["a"] <= second["a"]
    back = {"b": owning(seconds, second["b"], 2), "c": owning("t u", first["c"], 1)}
    third = settled(assignor, group(back, t=6, u=6))
    assert sizes(third) == [6, 6]
    assert second["b"] == third["b"], "what the newer generation owns stays"


@both
@everywhere
def test_two_that_come_back_with_old_claims_get_their_shares_again(assignor: Assignor, is_uniform: bool) -> None:
    everything = "t u v"
    ones, threes = (everything, everything) if is_uniform else ("t", "t u")
    first = settled(assignor, group({"a": member(ones), "b": member(everything), "c": member(threes)}, t=4, u=4, v=4))
    assert sizes(first) == [4, 4, 4]
    second = settled(assignor, group({"b": owning(everything, first["b"], 1)}, t=4, u=4, v=4))
    assert sizes(second) == [12]
    back = {
        "a": owning(ones, first["a"], 1),
        "b": owning(everything, second["b"], 2),
        "c": owning(threes, first["c"], 1),
    }
    assert sizes(settled(assignor, group(back, t=4, u=4, v=4))) == [4, 4, 4]


@both
@everywhere
def test_claims_that_contradict_one_another_end_in_one_owner_each(assignor: Assignor, is_uniform: bool) -> None:
    everything = "t u v"
    if is_uniform:
        ones, twos, stale = everything, everything, "t-0 t-1 t-2 u-2 u-3 v-0"
    else:
        ones, twos, stale = "t", "t u", "t-0 t-1 t-2 t-3"
    newer = "t-0 t-1 u-0 u-1 u-2 u-3"
    newest = "t-2 t-3 v-0 v-1 v-2 v-3"
    spec = group(
        {
            "a": member(ones, stale, generation=1),
            "b": member(twos, newer, generation=2),
            "c": member(everything, newest, generation=2),
        },
        t=4,
        u=4,
        v=4,
    )
    found = settled(assignor, spec)
    assert sizes(found) == [4, 4, 4]
    assert found["b"] <= set(partitions(newer))
    assert found["c"] <= set(partitions(newest))


@both
@pytest.mark.parametrize("generations", list(permutations((1, 2, 3))))
def test_one_partition_claimed_in_three_generations_has_one_owner(
    assignor: Assignor, generations: tuple[int, int, int]
) -> None:
    claims = {"a": "t-0 t-2", "b": "t-1 t-2 t-3", "c": "t-2 t-4 t-5"}
    members = {
        name: member("t", owned, generation=at) for (name, owned), at in zip(claims.items(), generations, strict=True)
    }
    found = settled(assignor, group({**members, "d": member("u", "u-0", generation=2)}, t=6, u=1))
    assert sizes(found) == [2, 2, 2, 1]


@both
def test_topics_of_one_and_two_partitions_are_balanced_where_round_robin_would_not(assignor: Assignor) -> None:
    few, many = "topic1 topic3 topic5", "topic1 topic2 topic3 topic4 topic5"
    members = {"c1": member(many), "c2": member(few), "c3": member(few), "c4": member(many)}
    spec = group(members, topic1=2, topic2=1, topic3=2, topic4=1, topic5=2)
    assert sizes(settled(assignor, spec)) == [2, 2, 2, 2]


QUOTAS = {
    "one more than the least": ("t-0 u-1 | t-1 u-2", {"t": 2, "u": 3}, [2, 3], 0),
    "more at the most than may be": ("t-0 u-0 | t-1 u-1 |", {"t": 2, "u": 2}, [1, 1, 2], 1),
    "all below the least": ("t-0 | t-1 |", {"t": 2, "u": 3}, [1, 2, 2], 0),
    "all filled already": ("t-0 t-1 | t-2 |", {"t": 4}, [1, 1, 2], 0),
}


@both
@pytest.mark.parametrize("case", QUOTAS)
def test_quotas_are_filled_from_what_each_owns(assignor: Assignor, case: str) -> None:
    text, topics, shares, moves = QUOTAS[case]
    owned = dict(zip("abc", text.split("|"), strict=False))
    found = settled(assignor, group({name: member("t u", held) for name, held in owned.items()}, **topics))
    assert sorted(sizes(found)) == shares
    assert sum(len(set(partitions(held)) - found[name]) for name, held in owned.items()) == moves


@both
def test_every_partition_goes_when_its_only_topic_is_gone(assignor: Assignor) -> None:
    first = assignor.assign(reporting_ownership(group({"a": member("t")}, t=3)))
    spec = GroupSpec({"a": owning("t", first["a"].partitions, 1)}, {})
    found = assignor.assign(reporting_ownership(spec))["a"].partitions
    # Cooperative-sticky leaves what it does not know with its owner (KIP-429), who loses it with its metadata.
    assert found == (frozenset() if assignor.name == "sticky" else first["a"].partitions)


@both
def test_versions_without_generation_keep_what_they_own(assignor: Assignor) -> None:
    def old(owned: str, version: int) -> MemberSpec:
        held = partitions(owned)
        data = encode_sticky(held, 1) if assignor.name == "sticky" else b"\x00\x00\x00\x01"
        return MemberSpec(Subscription(("t",), data, held if version else (), -1, version=version))

    spec = GroupSpec(
        {
            "a": old("t-0", 0 if assignor.name == "sticky" else 1),
            "b": old("t-1", 1),
            "c": member("t", "", generation=1),
        },
        group({}, t=3).topics,
    )
    found = assignor.assign(spec)
    assert {name: set(each.partitions) for name, each in found.items()} == {
        name: set(partitions(text)) for name, text in {"a": "t-0", "b": "t-1", "c": "t-2"}.items()
    }


@both
def test_a_hundred_random_changes_end_valid_balanced_and_sticky(assignor: Assignor) -> None:
    random = Random(9)
    for _ in range(20):
        topics = {f"t{number}": random.randint(1, 6) for number in range(random.randint(1, 6))}
        names = [f"m{number}" for number in range(random.randint(1, 8))]
        wishes = {name: " ".join(random.sample(sorted(topics), random.randint(1, len(topics)))) for name in names}
        owned: dict[str, Partitions] = {name: frozenset[TopicPartition]() for name in names}
        for generation in range(1, 6):
            spec = group({name: owning(wishes[name], owned[name], generation) for name in wishes}, **topics)
            owned = settled(assignor, spec, rounds=3)
            name = random.choice(sorted(wishes))
            if random.random() < 0.3 and len(wishes) > 1:
                del wishes[name], owned[name]
            else:
                wishes[name] = " ".join(random.sample(sorted(topics), random.randint(1, len(topics))))


def test_of_two_rack_mates_that_must_swap_each_gives_up_what_the_other_is_near_to() -> None:
    """Every partition is on one of two racks; both members sit on the far one of half of what they own."""
    spec = group(
        {"c0": member("t", "t-0 t-1", rack="r0"), "c1": member("t", "t-2 t-3", rack="r1")},
        t="r0 r1 r0 r1",
    )
    found = CooperativeStickyAssignor().assign(spec)
    withheld = measure(spec, found).unassigned
    assert withheld == frozenset(partitions("t-1 t-2"))
    again = CooperativeStickyAssignor().assign(rejoined(spec, found, 2))
    assert measure(spec, again).near == 4
