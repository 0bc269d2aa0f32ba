"""The checkers together."""

from __future__ import annotations

from tests.unit.sim.checks.scripted import (
    Script,
    T,
    classic,
    consumer,
    downgraded,
    gathers,
    generation,
    goes,
    group_epoch,
    joins,
    rejoins,
)

from kohort.sim.checks import all_checkers
from kohort.sim.checks.group_ledger import GroupLedger, Ledgers
from kohort.sim.checks.invariants import CATALOGUE


def test_every_invariant_has_a_checker_and_every_checker_an_invariant() -> None:
    checkers = all_checkers(1)
    held = {invariant for checker in checkers for invariant in checker.invariants}
    assert held == set(CATALOGUE)
    assert len({each.name for each in CATALOGUE}) == len(CATALOGUE)


def test_the_ledgers_see_everything_first() -> None:
    assert isinstance(all_checkers(1)[0], Ledgers)


def test_a_load_forgets_removed_members_and_not_those_left_behind() -> None:
    script = Script()
    script.happens(*classic("A", "B", "C"), gathers(1), rejoins("B"), rejoins("C"), generation(2, ["B", "A", "C"]))
    script.happens(generation(2, {"B": "t0", "A": "", "C": ""}), goes("C"))
    before = script.ledgers.groups["g"]
    assert [before.is_out(member_id) for member_id in "ABC"] == [True, False, True]
    after = GroupLedger()
    after.fold(generation(2, {"B": "t0", "A": "", "C": ""}))
    after.resume(before)
    assert [after.is_out(member_id) for member_id in "ABC"] == [True, False, False]


def test_a_cleaning_does_not_take_what_a_member_had_in_the_consumer_group_that_its_group_was() -> None:
    script = Script()
    script.happens(*consumer(3, A="t0"), group_epoch(4), *downgraded(4, A="t0"), gathers(4))
    before = script.ledgers.groups["g"]
    after = GroupLedger()  # of the log as a cleaning left it: no record of the consumer group is there any more
    after.fold(generation(4, {"A": "t0"}))
    after.fold(gathers(4))
    assert after.why_no_commit("A", 3, (T, 0)) == "A shows generation 3, the group is at 4"
    after.resume(before)
    assert after.why_no_commit("A", 3, (T, 0)) is None


def test_a_member_that_joins_the_round_is_not_out() -> None:
    script = Script()
    script.happens(*classic("A"), joins("B"))
    assert not script.ledgers.groups["g"].is_out("B")
    assert script.ledgers.groups["g"].is_out("C")


def test_a_consumer_group_knows_its_members_by_their_records() -> None:
    script = Script()
    script.happens(*consumer(A="t0"))
    assert not script.ledgers.groups["g"].is_out("A")
    assert script.ledgers.groups["g"].is_out("B")
