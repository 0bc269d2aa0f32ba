"""Times of a group, measured in the events that its broker wrote: callbacks and timeouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from kohort.group.classic.group import COOPERATIVE
from kohort.group.explain.explain import Explanation
from kohort.group.explain.rebalance_report import EventFields, Rebalance

LATEST = 50
"""How many rebalances back are looked at."""

SETTLED_INTERVALS = 1.5
"""After so many stable intervals a heartbeat of each member is parked, and each learns of a round at once."""


@dataclass(frozen=True, slots=True)
class CallbackTime:
    """What a group's events show; None where they show nothing."""

    callback_ms: float | None = None
    """How long a member takes to revoke: the median of each member's shortest time."""
    members: int = 0
    """The number of members of that median."""


class EventMeasurement:
    """The times of one group, folded from its events."""

    def __init__(self, group_id: str) -> None:
        self._explanation = Explanation(group_id, last=LATEST, keeps_events=False)
        self._sessions: dict[str, int] = {}
        self._rebalances: dict[str, int] = {}
        """The timeouts of members by their ids, in the order in which they joined."""

    def fold(self, event: EventFields) -> None:
        """Take one event."""
        self._explanation.fold(event)
        member_id = str(event.get("member"))
        if event.get("event") in ("member_joined", "member_subscribed"):
            for name, known in (("session_timeout_ms", self._sessions), ("rebalance_timeout_ms", self._rebalances)):
                if int(event.get(name) or 0) > 0:
                    known[member_id] = int(event[name])

    def measured(self, network_ms: float, heartbeat_ms: float) -> CallbackTime:
        """Return what was found; the network and the wait for a heartbeat are not part of a callback."""
        report = self._explanation.report(0)
        shortest: dict[str, float] = {}
        rested_ms: int | None = None
        for each in report.rebalances:
            rest_ms = 0 if rested_ms is None else each.started_ms - rested_ms
            is_parked = rest_ms > SETTLED_INTERVALS * heartbeat_ms
            rested_ms = each.ended_ms or each.started_ms
            for member_id, took_ms in callbacks_of(each, is_parked=is_parked):
                took_ms = max(0.0, took_ms - 2 * network_ms)
                shortest[member_id] = min(took_ms, shortest.get(member_id, took_ms))
        return CallbackTime(median(shortest.values()) if shortest else None, len(shortest))

    @property
    def offers(self) -> dict[str, tuple[str, ...]]:
        """The client-side assignors of each classic member, by its id."""
        return dict(self._explanation.report(0).protocols)

    @property
    def session_timeout_ms(self) -> int | None:
        """The session timeout of the classic member that joined last."""
        return next(reversed(self._sessions.values()), None)

    @property
    def rebalance_timeout_ms(self) -> int | None:
        """The rebalance timeout of the member that joined last."""
        return next(reversed(self._rebalances.values()), None)


def callbacks_of(rebalance: Rebalance, *, is_parked: bool) -> Iterator[tuple[str, float]]:
    """Yield the members that revoked partitions, and how long it took them, in milliseconds.

    An eager member runs its callback between the moment when it learns of a round and its JoinGroup: at the opening if
    its heartbeat is parked then, or when the broker answers the heartbeats of all members together. A
    cooperative one runs both, to give up and to take over, between its assignment and the round that it opens; a native
    one between a target and the heartbeat that acknowledges it. What two took together is halved.
    """
    for each in rebalance.rounds[:1] if is_parked else ():
        if each.protocol and each.protocol not in COOPERATIVE and not each.is_initial:
            for member_id, took_ms in each.rejoin_ms.items():
                if member_id != each.because.member_id and took_ms >= each.announced_ms:
                    yield member_id, took_ms - each.announced_ms
    for first, second in zip(rebalance.rounds, rebalance.rounds[1:], strict=False):
        opener = second.because.member_id
        if first.protocol in COOPERATIVE and first.stored_ms is not None and opener is not None:
            yield opener, (second.opened_ms - first.stored_ms) / 2
    for epoch in rebalance.epochs:
        yield from ((member_id, took_ms / 2) for member_id, took_ms in epoch.revoke_ms.items())
