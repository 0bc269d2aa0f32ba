"""Orders of operators about classic groups: members that are drained, and rounds that are to begin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kohort.group.classic.group import ClassicGroup
from kohort.model.bounded_dict import BoundedDict

MOST_ORDERED = 10_000
"""How many groups may have a round ordered; beyond that the oldest order is dropped."""

ORDER_MS = 300_000
"""How long an ordered round is waited for: a group whose leader sends nothing for so long begins one anyway."""

LONGEST_BEGINNING = 256
"""How long the beginning of a client id may be that names its member; a host's name has at most 253 characters."""


@dataclass(frozen=True, slots=True)
class OrderedRound:
    """A round that is to begin."""

    reason: str
    until_ms: int


class Orders:
    """The orders in force."""

    def __init__(self) -> None:
        self.drained_names: dict[str, frozenset[str]] = {}
        """By group."""
        self._rounds: BoundedDict[str, OrderedRound] = BoundedDict(MOST_ORDERED)

    def drain(self, group_id: str, names: Iterable[str]) -> None:
        """Drain the members with these names (`names_of`), and no others."""
        self.drained_names.pop(group_id, None)
        if names := frozenset(names):
            self.drained_names[group_id] = names

    def drained(self, group: ClassicGroup | None) -> frozenset[str]:
        """Return the ids of a group's members that are drained."""
        names = None if group is None else self.drained_names.get(group.group_id)
        if group is None or names is None:
            return frozenset()
        return frozenset(
            member_id
            for member_id, member in group.members.items()
            if not names.isdisjoint(names_of(member_id, member.instance_id, member.client_id, member.client_host))
        )

    def order_round(self, group_id: str, reason: str, now_ms: int) -> None:
        """Have a round begin."""
        self._rounds[group_id] = OrderedRound(reason, now_ms + ORDER_MS)

    def ordered(self, group_id: str, now_ms: int) -> OrderedRound | None:
        """Return the round that is to begin, if there is one."""
        found = self._rounds.get(group_id)
        if found is not None and now_ms >= found.until_ms:
            del self._rounds[group_id]
            return None
        return found

    def round_began(self, group_id: str) -> None:
        """A round has begun, by order or not."""
        self._rounds.pop(group_id, None)


def names_of(member_id: str, instance_id: str | None, client_id: str, client_host: str) -> set[str]:
    """Return the names by which a member can be drained: its ids, its host, and what its client id begins with.

    `billing-0` stands for the client ids `billing-0` and `billing-0-consumer`, and not for `billing-01`.
    """
    start = client_id[:LONGEST_BEGINNING]
    names = {start[:at] for at, letter in enumerate(start) if not letter.isalnum()}
    return (names | {member_id, instance_id or "", client_id, client_host, client_host.removeprefix("/")}) - {""}


def begins_round(group: ClassicGroup | None, member_id: str) -> bool:
    """Whether a member begins a round by joining again.

    The leader does. Where it is not known yet, since the gateway started after it was elected, any member may be it,
    and the answer to its JoinGroup names the leader.
    """
    if group is None or group.is_gathering or member_id not in group.members:
        return False
    return group.leader not in group.members or group.leader == member_id
