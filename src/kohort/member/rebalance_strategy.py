"""What a member revokes around a rebalance, and what it offers in JoinGroup, by rebalance protocol.

This is arithmetic on partition sets; when its answers are asked for is the state machine's business. EAGER revokes
everything before it joins, so nothing it is assigned can clash with what it owns. COOPERATIVE retains what it owns and
revokes, once the assignment is there, what that leaves out: the leader has withheld it from its next owner (KIP-429),
who gets it in the round that follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.assign.spec import Assignor, RebalanceProtocol
from kohort.assign.user_data import is_marked, marked
from kohort.member.member_state import Identity
from kohort.model.assignment import Partitions
from kohort.model.subscription import Subscription


def revoked_before_join(protocol: RebalanceProtocol, owned: Partitions, topics: Sequence[str]) -> Partitions | None:
    """Return what to revoke before JoinGroup; None runs no callback, an empty set runs it with nothing."""
    if protocol is RebalanceProtocol.EAGER:
        return owned
    wanted = frozenset(topics)
    return frozenset(each for each in owned if each.topic not in wanted) or None


def revoked_after_sync(protocol: RebalanceProtocol, owned: Partitions, assigned: Partitions) -> Partitions:
    """Return what to revoke after SyncGroup. A member that gives something up joins again, for its next owner."""
    return frozenset() if protocol is RebalanceProtocol.EAGER else owned - assigned


def protocol_for(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Return the highest rebalance protocol that all `assignors` have in common. Raises ValueError for none."""
    if not assignors:
        raise ValueError("a member needs at least one assignor: pass assignors=(RangeAssignor(),) or another one")
    names = [assignor.name for assignor in assignors]
    if len(set(names)) < len(names):
        raise ValueError(f"every assignor may be named once: {', '.join(names)}")
    shared = set(RebalanceProtocol).intersection(*(assignor.protocols for assignor in assignors))
    if not shared:
        raise ValueError(
            f"the assignors {', '.join(names)} have no rebalance protocol in common that this member speaks:"
            f" name assignors that all support one of {', '.join(sorted(RebalanceProtocol))}"
        )
    # COOPERATIVE is the higher of the two, and the order of the enum.
    return max(shared, key=list(RebalanceProtocol).index)


def offer(
    assignors: Iterable[Assignor], topics: Sequence[str], owned: Partitions, identity: Identity, rack: str | None
) -> tuple[tuple[str, Subscription], ...]:
    """Return what a member offers in JoinGroup: a subscription for each assignor, in order of preference."""
    wanted = tuple(sorted(topics))
    claim = tuple(sorted(owned))
    generation = identity.generation
    return tuple(
        (assignor.name, Subscription(wanted, _user_data(assignor, topics, owned, generation), claim, generation, rack))
        for assignor in assignors
    )


def _user_data(assignor: Assignor, topics: Sequence[str], owned: Partitions, generation: int) -> bytes | None:
    """Return the assignor's user data; in a cooperative group with the mark of members that read assignment errors."""
    user_data = assignor.user_data(topics, owned, generation)
    if RebalanceProtocol.COOPERATIVE not in assignor.protocols or is_marked(user_data):
        return user_data
    return marked(user_data or b"")
