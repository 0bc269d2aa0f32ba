"""Which rebalance protocol a member speaks, and what it offers in JoinGroup."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.unit.member.classic_script import TWO, partitions

from kohort.assign import CooperativeStickyAssignor, GroupSpec, RangeAssignor, RebalanceProtocol, RoundRobinAssignor
from kohort.assign.spec import Assignor
from kohort.member.member_state import Identity
from kohort.member.rebalance_strategy import offer, protocol_for, revoked_after_sync, revoked_before_join
from kohort.model.assignment import Assignment, Partitions
from kohort.model.subscription import Subscription


class CooperativeOnly(RangeAssignor):
    name = "cooperative-only"
    protocols = (RebalanceProtocol.COOPERATIVE,)  # type: ignore[assignment]


class Remembering:
    """An assignor whose user data report what its member owned, and when."""

    name = "remembering"
    protocols = (RebalanceProtocol.EAGER,)

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        return {member: Assignment() for member in spec.members}

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes | None:
        return f"{','.join(topics)} {len(owned)} {generation}".encode()


def test_eager_gives_up_all_before_it_joins() -> None:
    assert revoked_before_join(RebalanceProtocol.EAGER, TWO, ["t"]) == TWO
    assert revoked_before_join(RebalanceProtocol.EAGER, frozenset(), ["t"]) == frozenset()


def test_eager_gives_up_nothing_after_sync() -> None:
    assert revoked_after_sync(RebalanceProtocol.EAGER, frozenset(), partitions(1, 2)) == frozenset()


def test_cooperative_gives_up_before_joining_only_what_is_no_longer_wanted() -> None:
    assert revoked_before_join(RebalanceProtocol.COOPERATIVE, TWO, ["t"]) is None
    assert revoked_before_join(RebalanceProtocol.COOPERATIVE, TWO | partitions(0, topic="u"), ["u"]) == TWO


def test_cooperative_gives_up_after_sync_only_what_the_assignment_leaves_out() -> None:
    assert revoked_after_sync(RebalanceProtocol.COOPERATIVE, TWO, TWO) == frozenset()
    assert revoked_after_sync(RebalanceProtocol.COOPERATIVE, TWO, partitions(1, 2)) == partitions(0)


@pytest.mark.parametrize(
    ("assignors", "protocol"),
    [
        ([RangeAssignor()], RebalanceProtocol.EAGER),
        ([RangeAssignor(), CooperativeStickyAssignor()], RebalanceProtocol.EAGER),
        ([CooperativeStickyAssignor()], RebalanceProtocol.COOPERATIVE),
        ([CooperativeStickyAssignor(), CooperativeOnly()], RebalanceProtocol.COOPERATIVE),
    ],
)
def test_a_member_uses_the_highest_protocol_that_all_its_assignors_support(
    assignors: list[Assignor], protocol: RebalanceProtocol
) -> None:
    assert protocol_for(assignors) is protocol


def test_assignors_without_a_protocol_in_common_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="range, cooperative-only"):
        protocol_for([RangeAssignor(), CooperativeOnly()])


def test_an_assignor_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="once"):
        protocol_for([RangeAssignor(), RangeAssignor()])


def test_a_member_without_assignors_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        protocol_for([])


def test_every_assignor_is_offered_in_order_of_preference() -> None:
    offered = offer([RoundRobinAssignor(), RangeAssignor()], ["u", "t"], TWO, Identity(3, "m"), "rack-1")
    subscription = Subscription(("t", "u"), None, tuple(sorted(TWO)), 3, "rack-1")
    assert offered == (("roundrobin", subscription), ("range", subscription))


def test_an_assignor_may_add_user_data() -> None:
    [(_, subscription)] = offer([Remembering()], ["t"], TWO, Identity(3, "m"), None)
    assert subscription.user_data == b"t 2 3"
