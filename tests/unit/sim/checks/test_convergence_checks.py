"""What a healed world owes to its members."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.unit.sim.checks.brokers import Broker
from tests.unit.sim.checks.scripted import WHY, Member, Script, breaks, classic, gathers, generation, goes, joins, of

from kohort.gateway.assigning.edge import ASSIGNOR_MS
from kohort.group.events import GroupLoaded
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.checks.convergence_checks import AT_ONCE_US, GRACE_US, QUIET_US, SLACK_US, EndChecker, StandstillChecker
from kohort.sim.checks.fault_history import FaultsSeen
from kohort.sim.checks.group_ledger import Ledgers
from kohort.sim.checks.invariants import (
    CONVERGES_AFTER_HEALING,
    EVERY_PARKED_REPLY_ANSWERED,
    LEARNS_NO_LATER,
    STANDSTILL_BOUNDED,
)


class Ending(EndChecker):
    """The checker, made as `Broker` makes them."""

    def __init__(self, ledgers: Ledgers, _: Random) -> None:
        super().__init__(ledgers)


def healed() -> tuple[Broker, Member]:
    """A world with one member, which has all partitions of `t`."""
    broker = Broker(Ending)
    broker.enter("A")
    a = Member("a", "A", 2)
    broker.observer.member_started(a)
    broker.observer.owns(a, frozenset(TopicPartition("t", number) for number in range(4)))
    broker.observer.healed()
    return broker, a


def test_a_group_in_which_everything_is_owned_has_converged() -> None:
    broker, _ = healed()
    broker.observer.ended()
    assert broker.checker.checked[CONVERGES_AFTER_HEALING.name] == 1


def test_a_partition_without_an_owner_is_missed() -> None:
    broker, a = healed()
    broker.observer.owns(a, frozenset(TopicPartition("t", number) for number in range(3)))
    with breaks(CONVERGES_AFTER_HEALING, "no member owns t-3"):
        broker.observer.ended()


def test_a_member_that_is_no_more_is_noticed() -> None:
    broker, _ = healed()
    broker.enter("B")
    with breaks(CONVERGES_AFTER_HEALING, "it is Reconciling in the end"):
        broker.observer.ended()


def test_a_world_that_was_never_healed_owes_nothing() -> None:
    broker = Broker(Ending)
    broker.enter("A")
    broker.observer.member_started(Member("a", "A", 2))
    broker.observer.ended()


def test_a_request_of_a_healed_world_is_answered() -> None:
    broker, a = healed()
    broker.scheduler.run_until(broker.scheduler.now_us + GRACE_US)
    broker.observer.asked(a, "JoinGroup", "")
    broker.scheduler.run_until(broker.scheduler.now_us + 9_000_000)
    with breaks(EVERY_PARKED_REPLY_ANSWERED, "JoinGroup of a got no answer within 9.0 s"):
        broker.observer.answered(a, "JoinGroup", ErrorCode.REQUEST_TIMED_OUT, "")


def test_a_request_on_a_connection_that_broke_before_the_healing_may_time_out() -> None:
    broker, a = healed()
    broker.observer.asked(a, "JoinGroup", "")
    broker.observer.answered(a, "JoinGroup", ErrorCode.REQUEST_TIMED_OUT, "")


INTERVAL_MS = 3_000
SECOND_US = 1_000_000


class Round:
    """Two members in generation 1, whose heartbeats come each three seconds; `a` owns t-0."""

    def __init__(self, kind: str = "eager") -> None:
        self.faults = FaultsSeen()
        self.checker = StandstillChecker(self.faults)
        self.script = Script(lambda _: self.faults, lambda _: self.checker)
        self.see: Any = self.script.see
        self.a, self.b = (self.script.member(name, epoch=1, kind=kind) for name in "ab")
        for member in (self.a, self.b):
            self.see.configured(member, INTERVAL_MS)
        self.script.happens(*classic(A="t0", B=""))
        self.see.owns(self.a, of("t0"))

    def passes(self, us: int) -> None:
        self.script.scheduler.run_until(self.script.scheduler.now_us + us)

    def beats(self, member: Member) -> None:
        self.see.asked(member, "Heartbeat", "")

    def learns(self, member: Member) -> None:
        self.see.answered(member, "Heartbeat", ErrorCode.REBALANCE_IN_PROGRESS, "")

    def joins(self, member: Member) -> None:
        self.see.asked(member, "JoinGroup", "range: ")

    def ends(self) -> None:
        self.script.happens(generation(2, ["A", "B"]), generation(2, {"A": "", "B": "t0"}))

    def stands_still(self, us: int) -> None:
        """`a` gives t-0 up at once; the round ends so much later."""
        self.script.happens(gathers(1))
        self.learns(self.a)
        self.see.owns(self.a, of(""))
        self.joins(self.a)
        self.passes(us)
        self.learns(self.b)
        self.joins(self.b)
        self.ends()


def test_a_round_may_take_one_interval_and_no_longer() -> None:
    Round().stands_still(INTERVAL_MS * 1000 + SLACK_US)
    with breaks(STANDSTILL_BOUNDED, "t-0 was without an owner for 4.001 s", "due after 3.000 s"):
        Round().stands_still(INTERVAL_MS * 1000 + SLACK_US + 1000)


def test_a_member_that_takes_its_time_to_join_makes_the_bound_longer() -> None:
    world = Round()
    world.script.happens(gathers(1))
    world.learns(world.b)
    world.see.owns(world.a, of(""))
    world.passes(10 * SECOND_US)
    world.joins(world.b)
    world.ends()
    assert world.script.times(STANDSTILL_BOUNDED) == 2, "the partition and the round"


def round_without_a_gap(us: int) -> None:
    """`a` goes on reading t-0, and owns a partition that no topic has any more."""
    world = Round()
    world.see.owns(world.a, of("t0 t9"))
    world.see.owns(world.a, of("t0"))
    world.script.happens(gathers(1))
    world.passes(us)
    world.ends()


def test_a_round_in_which_all_is_owned_may_take_one_interval_and_no_longer() -> None:
    round_without_a_gap(INTERVAL_MS * 1000 + SLACK_US)
    with breaks(STANDSTILL_BOUNDED, "a round took 4.001 s"):
        round_without_a_gap(INTERVAL_MS * 1000 + SLACK_US + 1000)


def learnt(kind: str, us: int, *, is_sent_again: bool = False) -> int:
    """`a` sends a heartbeat, `b` a second later, both each three seconds; a round begins two seconds after the last.

    `b` learns of it so much later. Return how often that was compared.
    """
    world = Round(kind)
    world.beats(world.a)
    world.passes(SECOND_US)
    world.beats(world.b)
    if is_sent_again:
        world.see.answered(world.b, "Heartbeat", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")
    world.passes(SECOND_US // 4)
    if is_sent_again:
        world.beats(world.b)
    world.passes(2 * SECOND_US - SECOND_US // 4)
    world.beats(world.a)
    world.script.happens(gathers(1))
    world.learns(world.a)
    world.joins(world.a)
    world.passes(us)
    world.learns(world.b)
    world.joins(world.b)
    world.ends()
    return world.script.times(LEARNS_NO_LATER)


def test_a_cooperative_member_learns_of_a_round_by_its_own_next_heartbeat() -> None:
    due_us = SECOND_US
    assert learnt("cooperative", due_us + SLACK_US) == 2
    for is_sent_again in (False, True):
        with breaks(LEARNS_NO_LATER, "b learnt of a round after 2.001 s", "due after 1.000 s"):
            learnt("cooperative", due_us + SLACK_US + 1000, is_sent_again=is_sent_again)


def test_an_answer_at_once_to_a_heartbeat_that_is_sent_again_begins_an_interval() -> None:
    def learnt(answered_us: int) -> None:
        world = Round("cooperative")
        world.beats(world.b)
        world.see.answered(world.b, "Heartbeat", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")
        world.passes(2 * SECOND_US)
        world.beats(world.b)
        world.passes(answered_us)
        world.see.answered(world.b, "Heartbeat", ErrorCode.NONE, "")
        world.passes(SECOND_US // 2 - answered_us)
        world.script.happens(gathers(1))
        world.passes(5 * SECOND_US // 2 + SLACK_US)
        world.learns(world.b)
        world.joins(world.b)
        world.ends()

    learnt(AT_ONCE_US - 1)
    with breaks(LEARNS_NO_LATER, "b learnt of a round after 3.500 s", "due after 0.500 s"):
        learnt(AT_ONCE_US)


def test_an_eager_member_learns_of_a_round_by_the_last_members_next_heartbeat() -> None:
    due_us = 3 * SECOND_US
    assert learnt("eager", due_us + SLACK_US) == 2
    with breaks(LEARNS_NO_LATER, "b learnt of a round after 4.001 s", "the last member after 3.000 s"):
        learnt("eager", due_us + SLACK_US + 1000)


def test_a_round_ends_when_the_last_heartbeat_was_due() -> None:
    def ended(us: int) -> None:
        world = Round()
        for member in (world.a, world.b):
            world.beats(member)
        world.passes(2 * SECOND_US)
        world.stands_still(us)

    ended(SECOND_US + SLACK_US)
    with breaks(LEARNS_NO_LATER, "b learnt of a round after 2.001 s"):
        ended(SECOND_US + SLACK_US + 1000)


def test_a_round_that_opens_while_a_gateway_assigns_waits_for_that_too() -> None:
    def ended(us: int) -> None:
        world = Round()
        world.see.gateway_started(Random(0))
        for member in (world.a, world.b):
            world.joins(member)
        world.script.happens(generation(2, ["A", "B"]), gathers(2))
        world.passes(us)
        world.script.happens(generation(3, ["A", "B"]), generation(3, {"A": "t0", "B": ""}))

    assigned_us = 1000 * ASSIGNOR_MS
    ended(2 * assigned_us + SLACK_US)
    with breaks(STANDSTILL_BOUNDED, "a round took 3.001 s", "due after 1.000 s"):
        ended(2 * assigned_us + SLACK_US + 1000)


def test_a_round_behind_a_close_is_judged_where_the_member_has_left() -> None:
    for has_left, times in ((True, 2), (False, 0)):
        world = Round()
        closed = world.script.member("c")
        if has_left:
            world.see.asked(closed, "LeaveGroup", "")
        world.see.member_ended(closed.is_now(-1, ""), "closed")  # its identity ends with it
        world.stands_still(INTERVAL_MS * 1000)
        assert world.script.times(STANDSTILL_BOUNDED) == times


def test_a_round_that_waits_for_a_member_which_was_killed_or_cut_off_is_not_judged() -> None:
    for is_killed in (True, False):
        world = Round()
        if is_killed:
            world.see.member_ended(world.b, "killed")
        else:
            world.see.fault("freeze", "b", "for_us=1000000")
        world.stands_still(9 * SECOND_US)
        assert world.script.times(STANDSTILL_BOUNDED) == 0


def test_a_round_that_waits_for_a_member_whose_session_began_anew_when_its_group_was_loaded_is_not_judged() -> None:
    for is_loaded, times in ((True, 0), (False, 2)):
        world = Round()
        world.see.member_ended(world.b, "killed")
        world.passes(QUIET_US)
        if is_loaded:
            world.script.happens(GroupLoaded("g", WHY))
        world.passes(SECOND_US)
        world.stands_still(INTERVAL_MS * 1000)
        assert world.script.times(STANDSTILL_BOUNDED) == times


def judged_beside_a_static_member(*, is_back: bool, is_evicted: bool = False) -> int:
    """Return how often a round was judged, long after the process of a static member ended."""
    world = Round()
    static = world.script.member("c", instance_id="i")
    instances = {"C": "i"}
    world.script.happens(joins("C", "i"), generation(1, {"A": "t0", "B": "", "C": ""}, instances=instances))
    world.see.member_ended(static, "closed")
    if is_back:
        world.see.member_started(static)
    world.passes(60 * SECOND_US)
    world.script.happens(gathers(1))
    world.passes(3 * SECOND_US if is_back else 9 * SECOND_US)
    world.see.owns(world.a, of(""))
    if is_evicted:
        world.script.happens(goes("C", "i"), generation(2, {"A": "", "B": "t0"}))
    else:
        world.script.happens(generation(2, {"A": "", "B": "t0", "C": ""}, instances=instances))
    return world.script.times(STANDSTILL_BOUNDED)


def test_a_round_that_waits_for_a_static_member_which_does_not_run_is_not_judged() -> None:
    """Rounds before it had each begun its session anew: seed 969073."""
    assert judged_beside_a_static_member(is_back=False) == 0
    assert judged_beside_a_static_member(is_back=False, is_evicted=True) == 0
    assert judged_beside_a_static_member(is_back=True) == 2


def test_a_round_that_waits_for_a_join_on_a_vanished_connection_is_not_judged() -> None:
    for vanished, times in (("b", 0), ("", 2)):
        world = Round()
        if vanished:
            world.see.fault("vanish", vanished, "")
        world.passes(60 * SECOND_US)
        world.stands_still(INTERVAL_MS * 1000)
        assert world.script.times(STANDSTILL_BOUNDED) == times


def test_a_round_that_waits_for_a_static_member_whose_user_does_not_poll_is_not_judged() -> None:
    def waits(is_leaving: bool) -> int:
        world = Round()
        world.script.happens(gathers(1))
        world.learns(world.b)
        world.see.owns(world.a, of(""))
        world.passes(9 * SECOND_US)
        world.see.poll_missed(world.b, is_leaving)
        world.ends()
        return world.script.times(STANDSTILL_BOUNDED)

    assert waits(is_leaving=False) == 0
    with breaks(STANDSTILL_BOUNDED, "t-0 was without an owner for 9.000 s"):
        waits(is_leaving=True)


def test_the_sum_counts_what_is_taken_again() -> None:
    world = Round()
    world.see.owns(world.a, of(""))
    world.passes(2 * SECOND_US)
    world.see.owns(world.b, of("t0"))
    assert world.checker.unowned_us == 2 * SECOND_US
    world.see.owns(world.b, of(""))
    world.passes(SECOND_US)
    assert world.checker.unowned_us == 2 * SECOND_US, "no member has taken it"
