"""How long things took in a group before, from the events that its broker wrote of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from kohort.group.explain.explain import Explanation
from kohort.group.explain.rebalance_report import EventFields, Rebalance
from kohort.group.member_kinds import COOPERATIVE

LATEST = 50
"""How many rebalances back are looked at."""

SETTLED_INTERVALS = 1.5
"""After so many heartbeat intervals of rest a heartbeat of each member is kept, so that it hears of a round at once."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a group's events tell. None stands for what none of them did."""

    callback_ms: float | None = None
    """How long a member takes from being called to having given up: the median of each member's shortest time."""
    members: int = 0
    """How many members that is the median of."""


class Measuring:
    """Folds the events of one group."""

    def __init__(self, group_id: str) -> None:
        self._explanation = Explanation(group_id, last=LATEST, keeps_events=False)
        self._sessions: dict[str, int] = {}
        self._rebalances: dict[str, int] = {}
        """The timeouts of members by their ids, in the order in which they came."""

    def fold(self, event: EventFields) -> None:
        """Take one event."""
        self._explanation.fold(event)
        member_id = str(event.get("member"))
        if event.get("event") in ("member_joined", "member_subscribed"):
            for name, known in (("session_timeout_ms", self._sessions), ("rebalance_timeout_ms", self._rebalances)):
                if int(event.get(name) or 0) > 0:
                    known[member_id] = int(event[name])

    def measured(self, network_ms: float, heartbeat_ms: float) -> Measured:
        """Return what was found; neither the way to the coordinator nor the wait for a heartbeat is of a callback."""
        told = self._explanation.told(0)
        shortest: dict[str, float] = {}
        rested_ms: int | None = None
        for each in told.rebalances:
            rest_ms = 0 if rested_ms is None else each.started_ms - rested_ms
            is_heard_at_once = rest_ms > SETTLED_INTERVALS * heartbeat_ms
            rested_ms = each.ended_ms or each.started_ms
            for member_id, took_ms in callbacks_of(each, is_heard_at_once=is_heard_at_once):
                took_ms = max(0.0, took_ms - 2 * network_ms)
                shortest[member_id] = min(took_ms, shortest.get(member_id, took_ms))
        return Measured(
            median(shortest.values()) if shortest else None,
            len(shortest),
        )

    @property
    def offers(self) -> dict[str, tuple[str, ...]]:
        """The client-side assignors of each classic member, by its id."""
        return dict(self._explanation.told(0).protocols)

    @property
    def session_timeout_ms(self) -> int | None:
        """What the classic member that came last asked for."""
        return next(reversed(self._sessions.values()), None)

    @property
    def rebalance_timeout_ms(self) -> int | None:
        """What the member that came last asked for."""
        return next(reversed(self._rebalances.values()), None)


def callbacks_of(rebalance: Rebalance, *, is_heard_at_once: bool) -> Iterator[tuple[str, float]]:
    """Yield who took how long to give up what it was asked for, in milliseconds.

    An eager member runs its callback between the moment when it learns of a round and its JoinGroup: at the opening if
    its heartbeat is kept then, or when the broker answers the heartbeats of all members together. A
    cooperative one runs both, to give up and to take over, between its assignment and the round that it opens; a native
    one between a target and the heartbeat that acknowledges it. What two took together is halved.
    """
    for each in rebalance.rounds[:1] if is_heard_at_once else ():
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
