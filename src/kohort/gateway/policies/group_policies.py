"""What is done with each member's requests now: the table of policies, and groups that have fallen back.

Such a group is only observed for a while, since parking went wrong there. Signs of harm: a client abandons its
connection while its heartbeat is parked and sends from another one under the same member id, a member is evicted while
its heartbeat is parked, or members of one group on several hosts disconnect one after another while theirs are parked.
One host alone is none: a process that is killed looks the same.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from kohort.gateway.policies.policies import GroupProtocol, Policy, PolicyTable, Treatment
from kohort.model.bounded_dict import BoundedDict
from kohort.model.printable import printable
from kohort.parking.client_software import UNNAMED, ClientSoftware

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
        self.fallback_ms = fallback_ms
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
        self._until_ms[group_id] = now_ms + self.fallback_ms
        self._recent.pop(group_id, None)

    def _fall(self, group_id: str, harm: str, now_ms: int) -> None:
        is_new = not self.is_fallen(group_id, now_ms)
        self.fell_elsewhere(group_id, now_ms)
        if is_new:
            self._fell_back(group_id, harm)


log = logging.getLogger("kohort.gateway")

MOST_CLIENTS = 10_000
"""Of how many clients the software is remembered."""


@dataclass(slots=True)
class ParkingCounters:
    """How often something was parked or withheld, and how often that did harm."""

    heartbeats: Counter[GroupProtocol] = field(default_factory=Counter)
    """Heartbeats that were parked."""
    updates: Counter[GroupProtocol] = field(default_factory=Counter)
    """Those of them whose wait ended since there was an update of their group, or could be."""
    syncs: int = 0
    """Answers to SyncGroup that were withheld."""
    fallbacks: int = 0


class KnownSoftware:
    """By host and client id, the software that ApiVersions named; none where two clients share both.

    Some name it on one of their connections only, as @platformatic/kafka does.
    """

    def __init__(self) -> None:
        self._names: BoundedDict[tuple[str, str], ClientSoftware] = BoundedDict(MOST_CLIENTS)

    def note(self, host: str, client_id: str, software: ClientSoftware) -> None:
        """A client names its software."""
        before = self._names.get((host, client_id), software)
        self._names[host, client_id] = software if before == software else UNNAMED

    def of(self, host: str, client_id: str) -> ClientSoftware:
        """Return the software of a client that has named none on this connection, or `UNNAMED`."""
        return self._names.get((host, client_id), UNNAMED)


class GroupPolicies:
    """The policies of one gateway, as they apply at the moment. `fell_back` is called with a group that falls back.

    `table` may be replaced: members' next requests are treated by the new one; what is parked already ends as usual.
    """

    def __init__(self, table: PolicyTable, fallback_ms: int, fell_back: Callable[[str], None]) -> None:
        self.table = table
        self.software = KnownSoftware()
        self.counters = ParkingCounters()
        self.fallbacks = Fallbacks(self._fell_back, fallback_ms)
        self._signal_fall = fell_back
        self._is_ending = False

    def parks(self, policy: Policy, group_id: str, now_ms: int) -> bool:
        """Whether a request of a member with this policy may wait now."""
        is_parking = policy.treatment is Treatment.PARK and not self._is_ending
        return is_parking and not self.fallbacks.is_fallen(group_id, now_ms)

    def stop_parking(self) -> None:
        """Park nothing any more."""
        self._is_ending = True

    def _fell_back(self, group_id: str, harm: str) -> None:
        self.counters.fallbacks += 1
        log.warning(
            "group %s is only observed for %d s: %s",
            printable(group_id),
            self.fallbacks.fallback_ms // 1000,
            printable(harm),
        )
        self._signal_fall(group_id)
