"""Groups that fall back to being observed, for a while, since parking went wrong there.

Signs of harm: a client abandons its connection while its heartbeat is parked and sends from another one under the same
member id, a member is evicted while its heartbeat is parked, or members of one group on several hosts disconnect
one after another while theirs are parked. One host alone is none: a process that is killed looks the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from kohort.model.bounded_dict import BoundedDict

FALLBACK_MS = 600_000
"""For how long a group falls back."""

HOSTS = 3
"""Disconnects of members on so many hosts whose heartbeats were parked are harm ..."""

WITHIN_MS = 60_000
"""... if they happen within this time."""

RETURN_MS = 60_000
"""For how long after its disconnect a member that sends again counts as one that abandoned it."""

MOST_REMEMBERED = 10_000
"""How many disconnects and groups are remembered; beyond that the oldest are forgotten."""


class Fallbacks:
    """The groups that have fallen back. `fell_back` gets each, once for every fall, and the harm in words."""

    def __init__(self, fell_back: Callable[[str, str], None], fallback_ms: int = FALLBACK_MS) -> None:
        self._fell_back = fell_back
        self._fallback_ms = fallback_ms
        self._until_ms: BoundedDict[str, int] = BoundedDict(MOST_REMEMBERED)
        """By group, until when it is observed only."""
        self._disconnected_ms: BoundedDict[tuple[str, str], int] = BoundedDict(MOST_REMEMBERED)
        """By group and member, when its connection ended while its heartbeat was parked."""
        self._recent: BoundedDict[str, OrderedDict[str, int]] = BoundedDict(MOST_REMEMBERED)
        """By group and host, the last time of such a disconnect."""

    def is_fallen(self, group_id: str, now_ms: int) -> bool:
        """Whether a group is observed only, for now."""
        until_ms = self._until_ms.get(group_id)
        if until_ms is None:
            return False
        if now_ms >= until_ms:
            del self._until_ms[group_id]
            return False
        return True

    def fallen(self, now_ms: int) -> int:
        """Return how many groups have fallen back."""
        return sum(now_ms < until_ms for until_ms in self._until_ms.values())

    def disconnected(self, group_id: str, member_id: str, host: str, now_ms: int) -> None:
        """A client's connection ended while a heartbeat of its member was parked, and the client ended it."""
        self._disconnected_ms[group_id, member_id] = now_ms
        recent = self._recent.get(group_id)
        if recent is None:
            recent = self._recent[group_id] = OrderedDict()
        recent.pop(host, None)
        recent[host] = now_ms
        while now_ms - next(iter(recent.values())) > WITHIN_MS:
            recent.popitem(last=False)
        if len(recent) >= HOSTS:
            harm = f"members on {HOSTS} hosts disconnected while their heartbeats were parked"
            self._fall(group_id, harm, now_ms)

    def seen(self, group_id: str, member_id: str, now_ms: int) -> None:
        """A member sends a request."""
        if not self._disconnected_ms:
            return
        at_ms = self._disconnected_ms.pop((group_id, member_id), None)
        if at_ms is not None and now_ms - at_ms <= RETURN_MS:
            self._fall(group_id, f"member {member_id} abandoned its connection while its heartbeat was parked", now_ms)

    def evicted(self, group_id: str, member_id: str, now_ms: int) -> None:
        """The coordinator has evicted a member whose heartbeat was parked."""
        self._fall(group_id, f"member {member_id} was evicted while its heartbeat was parked", now_ms)

    def fell_elsewhere(self, group_id: str, now_ms: int) -> None:
        """Parking did harm to a group at another instance of the gateway, which reports it."""
        self._until_ms[group_id] = now_ms + self._fallback_ms
        self._recent.pop(group_id, None)

    def _fall(self, group_id: str, harm: str, now_ms: int) -> None:
        is_new = not self.is_fallen(group_id, now_ms)
        self.fell_elsewhere(group_id, now_ms)
        if is_new:
            self._fell_back(group_id, harm)
