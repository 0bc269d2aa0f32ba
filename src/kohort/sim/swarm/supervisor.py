"""Whoever runs the members of a world: what fails is started again, as by an orchestrator.

It takes part in the world as an observer that acts later, never from inside what it sees.
"""

from __future__ import annotations

from kohort.sim.kernel.world_observer import Observer, SeenMember
from kohort.sim.scenario.simulated_cluster import Seat, Stage
from kohort.sim.scenario.world_plan import SECOND_US

PASSING = frozenset({"UNRELEASED_INSTANCE_ID", "FENCED_INSTANCE_ID", "GROUP_MAX_SIZE_REACHED"})
"""Why a member may be refused now and taken later."""

RESTART_US = 3 * SECOND_US
"""How soon a member that failed is started again."""


class Supervisor(Observer):
    """Starts members again that could not go on, as whoever runs them does."""

    def __init__(self) -> None:
        self.stage: Stage | None = None

    def member_ended(self, member: SeenMember, how: str) -> None:
        """See a process end, and start the next one if it failed."""
        if self.stage is None or not how.startswith("failed"):
            return
        seat = self.stage.seats[member.name]
        if not self.stage.is_healed or how.removeprefix("failed: ") in PASSING:
            self.stage.scheduler.after(RESTART_US, self._restart, seat)

    def _restart(self, seat: Seat) -> None:
        if not seat.is_running and not seat.stays_away:
            seat.start()

    def mend(self) -> None:
        """Have classic groups with static members rebalance: somebody has seen that topics are left out.

        Only a leader that asks gets a round when nothing else has changed, so all of them ask.
        """
        assert self.stage is not None, "a supervisor has a world"
        for seat in self.stage.seats.values():
            is_static = seat.plan.kind.protocol == "classic" and seat.plan.config.instance_id is not None
            if is_static and seat.is_running and seat.peer is not None:
                self.stage.observer.fault("mended", seat.name, "")
                seat.peer.rejoin("topics changed while the leader was away")
