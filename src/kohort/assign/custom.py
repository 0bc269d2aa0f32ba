"""An assignor of one's own from one function.

    @assignor(name="by-hand")
    def by_hand(spec: GroupSpec) -> dict[str, list[TopicPartition]]: ...

The function is given the whole group: every member's topics, owned partitions with their generation, rack and user
data, and the partitions and racks of every topic. It returns each member's partitions, or an `Assignment` where it
has bytes for the member. It must be pure: the leader runs it, and any member may be the leader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import overload

from kohort.assign.cooperative import two_step
from kohort.assign.spec import Assignor, GroupSpec, RebalanceProtocol, StatelessAssignor, member_order
from kohort.assign.sticky import CooperativeStickyAssignor
from kohort.assign.sticky_engine import Engine
from kohort.assign.user_data import decode_weight, encode_weight, marked
from kohort.model.assignment import Assignment, Partitions
from kohort.model.ids import TopicPartition

Assign = Callable[[GroupSpec], Mapping[str, Iterable[TopicPartition] | Assignment]]
UserData = bytes | Callable[[Iterable[str], Partitions, int], bytes | None] | None


@overload
def assignor(
    function: None = None,
    *,
    name: str,
    cooperative: bool = False,
    withhold: bool = False,
    user_data: UserData = None,
) -> Callable[[Assign], Assignor]: ...
@overload
def assignor(
    function: Assign,
    *,
    name: str,
    cooperative: bool = False,
    withhold: bool = False,
    user_data: UserData = None,
) -> Assignor: ...
def assignor(
    function: Assign | None = None,
    *,
    name: str,
    cooperative: bool = False,
    withhold: bool = False,
    user_data: UserData = None,
) -> Assignor | Callable[[Assign], Assignor]:
    """Return the function as an assignor; without a function, a decorator that does.

    `name` is what all members of the group must offer. With `cooperative` it may also be used by members that retain
    their partitions through a rebalance: then the function must not give away what another member owns, or
    `withhold=True` takes that out of its result until the owner has let go; a member refuses a result that breaks the
    rule. `user_data` is what this member sends to the leader's function: bytes, or a function of its topics, owned
    partitions and generation.
    """
    if withhold and not cooperative:
        raise ValueError(
            "withhold=True is for cooperative assignors: members of an eager one own nothing when they join"
        )

    def wrap(function: Assign) -> Assignor:
        return FunctionAssignor(function, name, cooperative, withhold, user_data)

    return wrap if function is None else wrap(function)


class FunctionAssignor(StatelessAssignor):
    """What `assignor` returns. Calling it calls the function.

    An assignor that remembers is a class of one's own with the methods of `Assignor`.
    """

    def __init__(self, function: Assign, name: str, cooperative: bool, withhold: bool, user_data: UserData) -> None:
        self._function = function
        self._user_data = user_data
        self._withhold = withhold
        self.name = name
        self.protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)
        if cooperative:
            self.protocols += (RebalanceProtocol.COOPERATIVE,)

    def __call__(self, spec: GroupSpec) -> Mapping[str, Iterable[TopicPartition] | Assignment]:
        """Return what the function returns, unchecked."""
        return self._function(spec)

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return one assignment for every member of `spec`; a member that the function left out gets nothing.

        Raises ValueError where the function names an unknown member, or a partition twice.
        """
        returned = self._function(spec)
        if unknown := sorted(returned.keys() - spec.members.keys()):
            raise ValueError(f"the assignor {self.name} assigned partitions to {', '.join(unknown)}: no such member")
        given = {member: _assignment(returned.get(member, ())) for member in spec.members}
        self._refuse_two_owners(given)
        return two_step(spec, given) if self._withhold else given

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes | None:
        """Return what the member sends to the leader's function."""
        return self._user_data(topics, owned, generation) if callable(self._user_data) else self._user_data

    def _refuse_two_owners(self, given: Mapping[str, Assignment]) -> None:
        owner: dict[TopicPartition, str] = {}
        for member, assignment in given.items():
            for partition in sorted(assignment.partitions):
                if (other := owner.setdefault(partition, member)) != member:
                    raise ValueError(f"the assignor {self.name} assigned {partition} to both {other} and {member}")


def _assignment(given: Iterable[TopicPartition] | Assignment) -> Assignment:
    if isinstance(given, Assignment):
        return given
    return Assignment(frozenset(TopicPartition(topic, partition) for topic, partition in given))


class CapacityAssignor(CooperativeStickyAssignor):
    """Assignor `capacity`: `cooperative-sticky` with shares in proportion to weights. `weight` is this member's own.

    With `is_eager` this member rebalances eagerly, though it could do better.
    """

    name = "capacity"

    def __init__(self, weight: float = 1.0, *, is_eager: bool = False) -> None:
        if not (math.isfinite(weight) and weight > 0):
            raise ValueError(f"a member's weight is a number above 0, for example its cores; {weight} is none")
        self.weight = weight
        if is_eager:
            self.protocols = (RebalanceProtocol.EAGER,)

    def _engine(self, spec: GroupSpec) -> Engine:
        order = member_order(spec)
        subscriptions = [spec.members[name].subscription for name in order]
        weights = [decode_weight(subscription.user_data) for subscription in subscriptions]
        owned = [subscription.owned for subscription in subscriptions]
        return Engine(spec, order, subscriptions, list(owned), lambda at: subscriptions[at].generation, weights)

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes:
        """Return the weight, and our mark behind it."""
        del topics, owned, generation
        return marked(encode_weight(self.weight))
