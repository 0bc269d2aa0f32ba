"""What is done with each member's requests now: the table of policies, and the groups that have fallen back."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kohort.gateway.policies.fallbacks import Fallbacks
from kohort.gateway.policies.policies import GroupProtocol, Policy, PolicyTable, Treatment
from kohort.model.bounded_dict import BoundedDict
from kohort.model.printable import printable

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
    """By host and client id, the software that ApiVersions named; empty where two clients share both.

    Some name it on one of their connections only, as @platformatic/kafka does.
    """

    def __init__(self) -> None:
        self._names: BoundedDict[tuple[str, str], str] = BoundedDict(MOST_CLIENTS)

    def note(self, host: str, client_id: str, software: str) -> None:
        """A client names its software."""
        before = self._names.get((host, client_id), software)
        self._names[host, client_id] = software if before == software else ""

    def of(self, host: str, client_id: str) -> str:
        """Return the software of a client that has named none on this connection, or empty."""
        return self._names.get((host, client_id), "")


class GroupPolicies:
    """The policies of one gateway, as they apply at the moment. `fell_back` is called with a group that falls back."""

    def __init__(self, table: PolicyTable, fallback_ms: int, fell_back: Callable[[str], None]) -> None:
        self.table = table
        self.software = KnownSoftware()
        self.counters = ParkingCounters()
        self.fallbacks = Fallbacks(self._fell_back, fallback_ms)
        self._fallback_ms = fallback_ms
        self._signal_fall = fell_back
        self._is_parking = table.parks

    def parks(self, policy: Policy, group_id: str, now_ms: int) -> bool:
        """Whether a request of a member with this policy may wait now."""
        is_parking = self._is_parking and policy.treatment is Treatment.PARK
        return is_parking and not self.fallbacks.is_fallen(group_id, now_ms)

    def stop_parking(self) -> None:
        """Park nothing any more."""
        self._is_parking = False

    def _fell_back(self, group_id: str, harm: str) -> None:
        self.counters.fallbacks += 1
        log.warning(
            "group %s is only observed for %d s: %s", printable(group_id), self._fallback_ms // 1000, printable(harm)
        )
        self._signal_fall(group_id)
