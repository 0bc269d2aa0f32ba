"""Who leads a group whose members write different versions of the embedded protocol (KIP-429)."""

from __future__ import annotations

import pytest
from tests.unit.group.mixed import Mixed, offer
from tests.unit.group.world import joined

from kohort.group.commands import Leaving
from kohort.model.ids import TopicPartition

COOPERATIVE = ("cooperative-sticky",)
NEWCOMER = "a newcomer, whose id is the first of all"


def leader_after_the_leader(newcomer: int, other: int, *, owns: bool = True, **settings: bool) -> str:
    """Let the leader of a group leave, and return who of a newcomer and another member leads then.

    They write these versions of the embedded protocol; the other one owns a partition where it `owns`.
    """
    world = Mixed(**settings)
    ids = [world.enter(protocols=offer(names=COOPERATIVE, version=other))[0] for _ in range(2)]
    world.gather()
    leader, stays = world.settle(ids)
    _, came = world.enter(protocols=offer(names=COOPERATIVE, version=newcomer), new_member_id=NEWCOMER)
    owned = frozenset({TopicPartition("t", 0)}) if owns else frozenset()
    world.join(stays, protocols=offer(names=COOPERATIVE, owned=owned, generation=1, version=other))
    world.leave(Leaving(leader))
    return "newcomer" if joined(came).leader == NEWCOMER else "other"


@pytest.mark.parametrize(("newcomer", "other"), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)])
def test_member_that_cannot_read_what_others_own_does_not_lead_while_others_can(newcomer: int, other: int) -> None:
    assert leader_after_the_leader(newcomer, other) == "other"


@pytest.mark.parametrize(("newcomer", "other"), [(1, 1), (2, 3), (3, 3)])
def test_members_that_read_all_that_matters_are_alike(newcomer: int, other: int) -> None:
    assert leader_after_the_leader(newcomer, other) == "newcomer"


def test_any_version_may_lead_where_no_member_owns_a_partition() -> None:
    assert leader_after_the_leader(0, 3, owns=False) == "newcomer"


def test_election_is_kafkas_where_it_goes_by_no_version() -> None:
    assert leader_after_the_leader(0, 3, elects_by_version=False) == "newcomer"


def test_leader_of_an_old_version_is_replaced_by_a_newer_member() -> None:
    world = Mixed()
    old, _ = world.enter(protocols=offer(names=COOPERATIVE, version=0))
    world.gather()
    world.settle([old])
    world.join(old, protocols=offer("t", "u", names=COOPERATIVE, version=0))
    owner = offer(names=COOPERATIVE, owned=frozenset({TopicPartition("t", 0)}), generation=1)
    came = world.join(protocols=owner, is_two_step=False)
    world.gather()
    assert joined(came).leader == joined(came).member_id != old
