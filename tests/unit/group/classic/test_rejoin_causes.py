"""Why a known member joins again: what it wants counts, and what topics show, not the bytes of its metadata."""

from __future__ import annotations

import pytest
from tests.unit.group.fixed_topics import FixedTopics
from tests.unit.group.world import World

from kohort.assign import Assignor, CooperativeStickyAssignor, RangeAssignor, StickyAssignor
from kohort.assign.custom import CapacityAssignor, assignor
from kohort.group.commands import Protocols
from kohort.group.coordinator_settings import ImageTopic
from kohort.model.assignment import Assignment
from kohort.model.cause import CauseKind
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.node.configuration.config import Config
from kohort.node.groups.settings_from_config import group_settings
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription

MINE = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})
YOURS = frozenset({TopicPartition("t", 2), TopicPartition("t", 3)})
JAVA_METADATA = "cached metadata has changed from (version5: {t=4}) at the beginning of the rebalance"
READERS = ("topics_of", "owned_of", "assigned_of", "offer_of", "compared_metadata_of")


def offer(
    *assignors: Assignor,
    generation: int = -1,
    topics: tuple[str, ...] = ("t",),
    owned: frozenset[TopicPartition] = frozenset(),
    rack: str | None = None,
) -> Protocols:
    """What a member says after `generation`, in subscriptions of version 3."""

    def subscription(each: Assignor) -> bytes:
        each.on_assignment(Assignment(owned), generation)
        user_data = each.user_data(topics, owned, generation)
        return encode_subscription(Subscription(topics, user_data, tuple(sorted(owned)), generation, rack))

    return tuple((each.name, subscription(each)) for each in assignors)


def stable(*assignors: Assignor, partitions: int = 4) -> tuple[World, str, str]:
    """A group of two on the topic `t`, each with two of the four partitions that there were; leader, follower."""
    read = group_settings(Config())
    image = FixedTopics([ImageTopic("t", b"T" * 16, partitions)] if partitions else [])
    world = World(image=image, **{name: getattr(read, name) for name in READERS})
    leader, follower = world.completing(protocols=offer(*assignors))
    assigned = ((leader, encode_assignment(Assignment(MINE))), (follower, encode_assignment(Assignment(YOURS))))
    world.sync(leader, assignments=assigned)
    world.sync(follower)
    return world, leader, follower


def cause_of(world: World, member_id: str, protocols: Protocols, reason: str = "") -> tuple[CauseKind, str]:
    """Why the round is there that this join opens."""
    assert world.join(member_id, protocols=protocols, reason=reason).is_waiting, "the round starts as in Kafka"
    assert world.cause().member_id == member_id
    return world.cause().kind, world.cause().detail


EAGER, STICKY, COOPERATIVE = (RangeAssignor(),), (StickyAssignor(),), (CooperativeStickyAssignor(),)


@pytest.mark.parametrize("assignors", [EAGER, STICKY, COOPERATIVE, (RangeAssignor(), CooperativeStickyAssignor())])
def test_enforced_rebalance_is_one_though_the_generation_stands_in_every_subscription(
    assignors: tuple[Assignor, ...],
) -> None:
    owned = MINE if assignors == COOPERATIVE else frozenset()
    for is_leader in (True, False):
        world, leader, follower = stable(*assignors)
        kind = CauseKind.LEADER_REJOINED if is_leader else CauseKind.MEMBER_REJOINED
        member_id = leader if is_leader else follower
        protocols = offer(*assignors, generation=1, owned=owned if is_leader else frozenset())
        assert cause_of(world, member_id, protocols, "rebalance enforced by user") == (
            kind,
            "rebalance enforced by user",
        )


@pytest.mark.parametrize("reason", ["", "topic_metadata_change", JAVA_METADATA])
@pytest.mark.parametrize("is_leader", [True, False])
def test_partitions_that_no_member_was_assigned_are_why_a_member_joins_again(reason: str, is_leader: bool) -> None:
    world, leader, follower = stable(*COOPERATIVE, partitions=6)
    member_id = leader if is_leader else follower
    protocols = offer(*COOPERATIVE, generation=1, owned=MINE if is_leader else YOURS)
    found = "t has 6 partitions, 4 were assigned"
    assert cause_of(world, member_id, protocols, reason) == (CauseKind.TOPIC_METADATA_CHANGED, found)


def test_deleted_topic_is_why_a_member_joins_again() -> None:
    world, leader, _ = stable(*EAGER, partitions=0)
    protocols = offer(*EAGER, generation=1)
    assert cause_of(world, leader, protocols) == (CauseKind.TOPIC_METADATA_CHANGED, "t was deleted")


def test_topic_that_is_not_known_yet_is_not_taken_for_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FixedTopics, "is_followed", False)
    world, leader, _ = stable(*EAGER, partitions=0)
    protocols = offer(*EAGER, generation=1)
    assert cause_of(world, leader, protocols) == (CauseKind.LEADER_REJOINED, "")


def test_reason_of_another_kind_stands_before_what_topics_show() -> None:
    world, leader, _ = stable(*EAGER, partitions=6)
    assert cause_of(world, leader, offer(*EAGER, generation=1), "by hand") == (CauseKind.LEADER_REJOINED, "by hand")


def test_leader_that_saw_topics_change_is_believed_where_their_partitions_are_as_they_were() -> None:
    world, leader, _ = stable(*EAGER)
    kind, _ = cause_of(world, leader, offer(*EAGER, generation=1), JAVA_METADATA)
    assert kind is CauseKind.TOPIC_METADATA_CHANGED


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"topics": ("t", "u")}, "+u"),
        ({"topics": ("u",)}, "+u -t"),
        ({"topics": ("t", *(f"u-{number}" for number in range(9)))}, "+u-0 +u-1 +u-2 +u-3 +u-4 and 4 more"),
        ({"rack": "b"}, "rack b in place of None"),
    ],
)
def test_other_wishes_are_another_subscription_and_are_named(changed: dict[str, object], detail: str) -> None:
    world, _, follower = stable(*COOPERATIVE)
    protocols = offer(*COOPERATIVE, generation=1, owned=YOURS, **changed)  # type: ignore[arg-type]
    assert cause_of(world, follower, protocols) == (CauseKind.SUBSCRIPTION_CHANGED, detail)


def test_another_weight_is_a_wish_and_what_an_assignor_remembers_is_none() -> None:
    world, _, follower = stable(CapacityAssignor(weight=1.0))
    assert cause_of(world, follower, offer(CapacityAssignor(weight=2.0), generation=1)) == (
        CauseKind.SUBSCRIPTION_CHANGED,
        "other user data for capacity",
    )
    own = assignor(lambda _: {}, name="own", user_data=b"a")
    other = assignor(lambda _: {}, name="own", user_data=b"b")
    world, _, follower = stable(own)
    assert cause_of(world, follower, offer(other, generation=1))[0] is CauseKind.SUBSCRIPTION_CHANGED


def test_other_assignors_are_named_with_those_before() -> None:
    world, _, follower = stable(*EAGER)
    protocols = offer(RangeAssignor(), CooperativeStickyAssignor(), generation=1)
    expected = (CauseKind.PROTOCOL_CHANGED, "range,cooperative-sticky in place of range")
    assert cause_of(world, follower, protocols) == expected


def test_member_that_joins_a_round_of_others_has_not_changed_its_subscription() -> None:
    world, leader, follower = stable(*COOPERATIVE)
    world.join(leader, protocols=offer(*COOPERATIVE, generation=1, owned=MINE), reason="by hand")
    world.join(follower, protocols=offer(*COOPERATIVE, generation=1, owned=YOURS))
    assert world.events[-1].cause.kind is not CauseKind.SUBSCRIPTION_CHANGED
    rejoined = [event.cause.kind for event in world.events if type(event).__name__ == "MemberRejoined"]
    assert rejoined == [CauseKind.LEADER_REJOINED, CauseKind.MEMBER_REJOINED]
