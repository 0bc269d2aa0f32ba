"""All checkers of a world, in the order in which they must see it."""

from __future__ import annotations

from kohort.sim.checks.callback_checks import CallbackChecker
from kohort.sim.checks.cause_checks import CauseChecker
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.commit_checks import ClosingChecker, CommitChecker
from kohort.sim.checks.convergence_checks import EndChecker, StandstillChecker
from kohort.sim.checks.delivery_checks import ReadingChecker
from kohort.sim.checks.fault_history import FaultsSeen
from kohort.sim.checks.gateway_checks import GatewayChecker
from kohort.sim.checks.group_ledger import Ledgers
from kohort.sim.checks.membership_checks import EpochChecker, MembershipChecker
from kohort.sim.checks.ownership_checks import ConversionChecker, OwnershipChecker, TargetChecker
from kohort.sim.checks.replay_checks import ReplayChecker
from kohort.sim.checks.response_checks import ResponseChecker
from kohort.sim.checks.state_checks import StateChecker
from kohort.sim.checks.streams_checks import StreamsTargetChecker, StreamsTaskChecker
from kohort.sim.checks.transaction_checks import TransactionChecker
from kohort.sim.kernel.rng import Rng


def all_checkers(seed: int) -> list[Checker]:
    """Return new checkers for the world of a seed, from which they draw when to look at everything."""
    rng = Rng(seed)
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
        StreamsTaskChecker(ledgers),
        StreamsTargetChecker(ledgers),
        CommitChecker(ledgers),
        ReadingChecker(ledgers),
        ClosingChecker(ledgers, faults),
        StandstillChecker(faults),
        CallbackChecker(),
        ResponseChecker(),
        EndChecker(ledgers),
        ReplayChecker(ledgers, rng.stream("checks/replay")),
        CauseChecker(ledgers, faults),
        StateChecker(ledgers, rng.stream("checks/state")),
        GatewayChecker(ledgers),
        TransactionChecker(),
    ]
