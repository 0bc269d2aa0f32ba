"""Kafka's sticky assignors: balance first, then as little movement as can be.

Both share one engine; they differ in how a member reports what it owns. `sticky` (KIP-54) is eager: its members have
revoked everything when they join, so each remembers its last assignment and sends it along. The members of
`cooperative-sticky` (KIP-429) retain what they have, and their subscriptions claim it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.assign.spec import GroupSpec, RebalanceProtocol, StatelessAssignor, member_order
from kohort.assign.sticky_engine import Engine, Owned
from kohort.assign.user_data import (
    Memory,
    decode_generation,
    decode_sticky,
    encode_generation,
    encode_sticky,
    marked,
)
from kohort.model.assignment import Assignment, Partitions
from kohort.model.subscription import Subscription


class StickyAssignor:
    """Assignor `sticky`. It remembers its member's last assignment: every member needs an object of its own."""

    name = "sticky"
    protocols = (RebalanceProtocol.EAGER,)

    def __init__(self) -> None:
        self._memory: Memory | None = None

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return one assignment for every member of `spec`."""
        order = member_order(spec)
        members = [spec.members[name].subscription for name in order]
        memories = [decode_sticky(member.user_data) for member in members]
        owned = [memory.partitions for memory in memories]
        return Engine(spec, order, members, list(owned), lambda place: memories[place].generation).eager()

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes | None:
        """Return the last assignment and its generation, as Java writes them; None before the first."""
        del topics, owned, generation
        return None if self._memory is None else encode_sticky(*self._memory)

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Remember the assignment for the next round."""
        self._memory = Memory(tuple(sorted(assignment.partitions)), generation)


class CooperativeStickyAssignor(StatelessAssignor):
    """Assignor `cooperative-sticky`: what changes hands is given away in the round after the one that took it."""

    name = "cooperative-sticky"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return one assignment for every member of `spec`; follow the two-step rule."""
        return self._engine(spec).cooperative()

    def intended(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return what members shall own in the end, nothing withheld: what a coordinator asks for."""
        return self._engine(spec).eager()

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes:
        """Return the generation as Java writes it, and our mark behind it."""
        del topics, owned
        return marked(encode_generation(generation))

    def _engine(self, spec: GroupSpec) -> Engine:
        order = member_order(spec)
        members = [spec.members[name].subscription for name in order]
        owned: list[Owned] = [member.owned for member in members]
        return Engine(spec, order, members, owned, lambda place: generation_of(members[place]))


def generation_of(member: Subscription) -> int:
    """Return the generation in which a member of `cooperative-sticky` owned what it claims, or -1."""
    # Since version 2 the subscription has it (KIP-792), before that the user data.
    return member.generation if member.generation >= 0 else decode_generation(member.user_data)
