"""Which members learn of a round together: those that stop reading for it, and who else is awaited."""

from __future__ import annotations

from tests.unit.group.world import REBALANCE_MS, World

from kohort.group.commands import OpenRound
from kohort.group.decisions import decide
from kohort.group.effects import Announce
from kohort.model.cause import Cause, CauseKind

RANGE = (("range", b""),)
COOPERATIVE = (("cooperative-sticky", b""),)
BOTH = (("cooperative-sticky", b""), ("range", b""))


def announced(world: World) -> Announce | None:
    """Return how a round that began now would be announced."""
    command = OpenRound("g", Cause(CauseKind.MEMBER_LEFT, world.now_ms))
    found = [effect for effect in decide(world.shard, command, world.now_ms) if type(effect) is Announce]
    return found[0] if found else None


def test_eager_members_learn_of_a_round_together_within_half_of_its_timeout() -> None:
    world = World()
    members = world.stable(3, protocols=RANGE)
    latest_ms = world.now_ms + REBALANCE_MS // 2
    assert announced(world) == Announce("g", tuple(sorted(members)), frozenset(members), latest_ms)


def test_member_that_offers_an_eager_protocol_too_is_eager() -> None:
    world = World()
    members = world.stable(2, protocols=BOTH)
    assert announced(world).stopping == frozenset(members)  # type: ignore[union-attr]


def test_round_of_cooperative_members_is_not_announced() -> None:
    world = World()
    world.stable(3, protocols=COOPERATIVE)
    assert announced(world) is None


def test_member_that_claims_partitions_keeps_them_whatever_its_assignor_is_called() -> None:
    world = World(owned_of=lambda metadata: frozenset({("t", 0)}) if metadata == b"claims t-0" else frozenset())
    world.stable(2, protocols=(("own", b"claims t-0"),))
    assert announced(world) is None


def test_cooperative_member_is_awaited_by_the_eager_ones() -> None:
    world = World()
    first, second = world.stable(2, protocols=BOTH)
    world.group().members[second].protocols = COOPERATIVE
    found = announced(world)
    assert found is not None
    assert (found.awaited, found.stopping) == (tuple(sorted((first, second))), frozenset({first}))


def test_member_that_has_joined_again_is_not_awaited() -> None:
    world = World()
    first, second, third = sorted(world.stable(3, protocols=RANGE))
    world.group().awaiting_join.add(second)
    assert announced(world).awaited == (first, third)  # type: ignore[union-attr]


def test_round_of_a_protocol_that_is_not_a_consumers_is_not_announced() -> None:
    world = World()
    world.stable(2, protocols=(("sessioned", b""),), protocol_type="connect")
    assert announced(world) is None


def test_round_that_begins_before_the_assignment_is_there_is_not_announced() -> None:
    world = World()
    member_id, answer = world.enter(protocols=RANGE)
    world.gather()
    assert not answer.is_waiting
    assert announced(world) is None
    assert member_id in world.group().members
