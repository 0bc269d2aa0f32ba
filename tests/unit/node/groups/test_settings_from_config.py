"""How a node reads, for its groups, what members of type `consumer` say."""

from __future__ import annotations

import pytest
from tests.unit.group.world import World, joined

from kohort.assign import Assignor, CooperativeStickyAssignor, RangeAssignor, StickyAssignor
from kohort.group.commands import Protocols
from kohort.group.coordinator_settings import GroupSettings
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.node.configuration.config import Config
from kohort.node.groups.settings_from_config import group_settings
from kohort.wire.consumer_protocol import encode_subscription

HELD = (TopicPartition("t", 0), TopicPartition("t", 1))


def read() -> GroupSettings:
    return group_settings(Config())


def offer(
    generation: int, *assignors: Assignor, topics: tuple[str, ...] = ("t",), owned: tuple[TopicPartition, ...] = ()
) -> Protocols:
    """Return what a member says in JoinGroup after this generation."""
    return tuple(
        (
            each.name,
            encode_subscription(
                Subscription(topics, each.user_data(topics, frozenset(owned), generation), owned, generation)
            ),
        )
        for each in assignors
    )


def remembering(generation: int) -> StickyAssignor:
    found = StickyAssignor()
    found.on_assignment(Assignment(frozenset(HELD)), generation)
    return found


@pytest.mark.parametrize("assignor", [RangeAssignor(), CooperativeStickyAssignor(), remembering(1)])
def test_offers_that_differ_in_the_generation_alone_are_alike(assignor: Assignor) -> None:
    ((_, before),), ((_, after),) = offer(1, assignor), offer(2, assignor)
    assert before != after
    assert read().offer_of(before) == read().offer_of(after) is not None


@pytest.mark.parametrize(
    "changed",
    [
        offer(2, CooperativeStickyAssignor(), topics=("t", "u")),
        offer(2, CooperativeStickyAssignor(), owned=HELD),
    ],
    ids=["other topics", "more owned"],
)
def test_offers_that_differ_in_anything_else_are_not(changed: Protocols) -> None:
    ((_, before),) = offer(1, CooperativeStickyAssignor())
    assert read().offer_of(before) != read().offer_of(changed[0][1])


def test_a_memory_of_another_generation_is_another_offer() -> None:
    ((_, before),), ((_, after),) = offer(1, remembering(1)), offer(2, remembering(2))
    assert read().offer_of(before) != read().offer_of(after)


@pytest.mark.parametrize("generation", [1, 2, 258])
def test_a_leader_with_the_default_assignors_that_lost_its_answer_costs_no_round(generation: int) -> None:
    settings = read()
    world = World(
        **{
            name: getattr(settings, name)
            for name in ("topics_of", "owned_of", "assigned_of", "offer_of", "compared_metadata_of")
        }
    )
    assignors = (RangeAssignor(), CooperativeStickyAssignor())
    (leader,) = world.stable(1, protocols=offer(generation - 1, *assignors))
    again = joined(world.join(leader, protocols=offer(generation, *assignors), reason="blind"))
    assert (again.generation, again.skip_assignment, world.group().rebalances_avoided) == (1, True, 1)
