"""A clean close commits what was finished, where the coordinator takes it."""

from __future__ import annotations

from tests.unit.sim.checks.scripted import Member, Script, breaks, classic, commit, gathers, generation, goes, joins

from kohort.group.invariants import CLOSE_KEEPS_WORK
from kohort.member.effects import Callback
from kohort.model.ids import TopicPartition
from kohort.sim.checks.closing_checks import ClosingChecker
from kohort.sim.checks.fault_history import FaultsSeen

T0 = TopicPartition("t", 0)


def script_of() -> tuple[Script, Member]:
    """Two members in generation 1; the first one owns t-0."""
    faults = FaultsSeen()
    script = Script(lambda _: faults, lambda ledgers: ClosingChecker(ledgers, faults))
    a = script.member("a", "A", epoch=1)
    script.happens(*classic("B", A="t0"))
    return script, a


def test_finished_work_is_committed_in_a_round_that_gathers() -> None:
    script, a = script_of()
    script.happens(gathers(1), joins("C"))
    script.see.closing(a, {T0: 7})
    script.happens(goes("A"))
    with breaks(CLOSE_KEEPS_WORK, "a (A, 1) was closed when it had finished t-0 up to 7, and -1 is committed"):
        script.see.member_ended(a, "closed")


def test_a_commit_before_the_end_is_enough() -> None:
    script, a = script_of()
    script.see.closing(a, {T0: 7})
    script.happens(commit("A", 7), goes("A"))
    script.see.member_ended(a, "closed")
    assert script.times(CLOSE_KEEPS_WORK) == 1


def test_nothing_is_owed_where_the_coordinator_takes_no_commit() -> None:
    script, a = script_of()
    script.see.closing(a, {T0: 7})
    script.happens(gathers(1), generation(2, ["A", "B"]), goes("A"))
    script.see.member_ended(a, "closed")
    assert script.times(CLOSE_KEEPS_WORK) == 0


def test_nothing_is_owed_after_a_callback_that_raised_a_fault_or_a_kill() -> None:
    for what in ("raises", "fault", "kill"):
        script, a = script_of()
        if what == "fault":
            script.see.fault("slow disk", "node", "for_us=1")
        script.see.closing(a, {T0: 7})
        if what == "raises":
            script.see.callback_ended(a, Callback.REVOKED, frozenset({T0}), "ValueError")
        script.happens(goes("A"))
        script.see.member_ended(a, "killed" if what == "kill" else "closed")
        assert script.times(CLOSE_KEEPS_WORK) == 0
