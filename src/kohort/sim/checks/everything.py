"""All checkers of a world, in the order in which they must see it."""

from __future__ import annotations

from typing import Protocol

from kohort.sim.checks.callbacks import CallbackChecker
from kohort.sim.checks.causes import CauseChecker
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.closing import ClosingChecker
from kohort.sim.checks.commits import CommitChecker
from kohort.sim.checks.conversions import ConversionChecker
from kohort.sim.checks.ending import EndChecker
from kohort.sim.checks.epochs import EpochChecker
from kohort.sim.checks.faults_seen import FaultsSeen
from kohort.sim.checks.heeding import HeedingChecker
from kohort.sim.checks.ledgers import Ledgers
from kohort.sim.checks.membership import MembershipChecker
from kohort.sim.checks.ownership import OwnershipChecker
from kohort.sim.checks.reading import ReadingChecker
from kohort.sim.checks.replay import ReplayChecker
from kohort.sim.checks.standstill import StandstillChecker
from kohort.sim.checks.state import StateChecker
from kohort.sim.checks.targets import TargetChecker
from kohort.sim.draw import Draw


class Seeded(Protocol):
    """Whatever has a seed, such as a plan: checkers draw from it when to look at everything."""

    @property
    def seed(self) -> int:
        """The seed."""
        ...


def all_checkers(plan: Seeded) -> list[Checker]:
    """Return new checkers for a world."""
    draw = Draw(plan.seed)
    ledgers = Ledgers()
    faults = FaultsSeen()
    ownership = OwnershipChecker(ledgers)
    return [
        ledgers,
        faults,
        EpochChecker(ledgers),
        MembershipChecker(ledgers),
        TargetChecker(ledgers),
        ownership,
        ConversionChecker(ledgers, ownership),
        CommitChecker(ledgers),
        ReadingChecker(ledgers),
        ClosingChecker(ledgers, faults),
        StandstillChecker(faults),
        CallbackChecker(),
        HeedingChecker(),
        EndChecker(ledgers),
        ReplayChecker(ledgers, draw.stream("checks/replay")),
        CauseChecker(ledgers, faults),
        StateChecker(ledgers, draw.stream("checks/state")),
    ]
