"""How a member gives up and takes partitions around a rebalance: one strategy for each rebalance protocol.

A strategy is arithmetic on partition sets; when its answers are asked for is the state machine's business. EAGER
gives everything up before it joins, so nothing it is assigned can clash with what it owns. COOPERATIVE keeps what it
owns and gives up, once the assignment is there, what that leaves out: the leader has withheld it from its next owner
(KIP-429), who gets it in the round that follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kohort.assign.spec import Assignor, RebalanceProtocol
from kohort.assign.user_data import is_marked, marked
from kohort.member.identity import Identity
from kohort.model.assignment import Partitions, added, revoked
from kohort.model.subscription import Subscription


@dataclass(frozen=True, slots=True)
class Transition:
    """What an assignment brings: first revoke, then own `added` too; then join again if `is_rejoin`."""

    revoked: Partitions
    added: Partitions
    is_rejoin: bool = False


class Strategy(Protocol):
    """The answers that differ between rebalance protocols."""

    protocol: RebalanceProtocol
    is_loss_told_apart: bool
    """Whether what was deleted is lost by itself, or goes with all the rest."""

    def revoked_before_join(self, owned: Partitions, topics: Sequence[str]) -> Partitions | None:
        """Return what to revoke before JoinGroup; None runs no callback, an empty set runs it with nothing."""
        ...

    def transition(self, owned: Partitions, assigned: Partitions) -> Transition:
        """Return how a member that owns `owned` comes to own `assigned`."""
        ...


class Eager:
    """Stop the world: revoke all that is owned before every JoinGroup (Kafka before KIP-429, and its default)."""

    protocol = RebalanceProtocol.EAGER
    is_loss_told_apart = False

    def revoked_before_join(self, owned: Partitions, topics: Sequence[str]) -> Partitions | None:
        """Return all that is owned, so that the callback runs even where nothing is."""
        del topics
        return owned

    def transition(self, owned: Partitions, assigned: Partitions) -> Transition:
        """Return the whole assignment as added: nothing is owned by now."""
        return Transition(revoked=frozenset(), added=added(owned, assigned))


class Cooperative:
    """Keep reading: give up only what another member is to have, and join again for it to get there (KIP-429)."""

    protocol = RebalanceProtocol.COOPERATIVE
    is_loss_told_apart = True

    def revoked_before_join(self, owned: Partitions, topics: Sequence[str]) -> Partitions | None:
        """Return what is owned of topics that are no longer wanted; without any, no callback runs."""
        wanted = frozenset(topics)
        return frozenset(held for held in owned if held.topic not in wanted) or None

    def transition(self, owned: Partitions, assigned: Partitions) -> Transition:
        """Return the differences; a member that gave something up joins again, so that its next owner may have it."""
        given_up = revoked(owned, assigned)
        return Transition(given_up, added(owned, assigned), is_rejoin=bool(given_up))


_STRATEGIES: dict[RebalanceProtocol, Strategy] = {each.protocol: each for each in (Eager(), Cooperative())}


def strategy_for(assignors: Sequence[Assignor]) -> Strategy:
    """Return the strategy of the highest rebalance protocol that all `assignors` have in common.

    Raises ValueError where they have none in common, or none that this member speaks.
    """
    if not assignors:
        raise ValueError("a member needs at least one assignor: pass assignors=(RangeAssignor(),) or another one")
    names = [assignor.name for assignor in assignors]
    if len(set(names)) < len(names):
        raise ValueError(f"every assignor may be named once: {', '.join(names)}")
    shared = set(_STRATEGIES).intersection(*(assignor.protocols for assignor in assignors))
    if not shared:
        raise ValueError(
            f"the assignors {', '.join(names)} have no rebalance protocol in common that this member speaks:"
            f" name assignors that all support one of {', '.join(sorted(_STRATEGIES))}"
        )
    # COOPERATIVE is the higher of the two, and the order of the enum.
    return _STRATEGIES[max(shared, key=list(RebalanceProtocol).index)]


def offer(
    assignors: Iterable[Assignor], topics: Sequence[str], owned: Partitions, identity: Identity, rack: str | None
) -> tuple[tuple[str, Subscription], ...]:
    """Return what a member offers in JoinGroup: a subscription for each assignor, in order of preference."""
    wanted = tuple(sorted(topics))
    held = tuple(sorted(owned))
    generation = identity.generation
    return tuple(
        (assignor.name, Subscription(wanted, _user_data(assignor, topics, owned, generation), held, generation, rack))
        for assignor in assignors
    )


def _user_data(assignor: Assignor, topics: Sequence[str], owned: Partitions, generation: int) -> bytes | None:
    """Return the assignor's user data; in a cooperative group with the mark of members that read assignment errors."""
    user_data = assignor.user_data(topics, owned, generation)
    if RebalanceProtocol.COOPERATIVE not in assignor.protocols or is_marked(user_data):
        return user_data
    return marked(user_data or b"")
