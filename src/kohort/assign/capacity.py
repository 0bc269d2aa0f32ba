"""A custom assignor worth having: members get partitions in proportion to what they can do.

Each member sends a weight in its user data, for example its cores. The law: no partition could move to bring the
shares nearer to the weights (the sum over the members of load²/weight is the least there is), and as few as can be
move. It is sticky and follows the two-step rule, so it works cooperatively as it is; with equal weights it is
`cooperative-sticky`. Members that send no weight count as 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from kohort.assign.spec import GroupSpec, RebalanceProtocol, member_order
from kohort.assign.sticky import CooperativeStickyAssignor
from kohort.assign.sticky_engine import Engine
from kohort.assign.user_data import decode_weight, encode_weight, marked
from kohort.model.assignment import Partitions


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
