"""What a healed world owes to its members."""

from __future__ import annotations

from random import Random

from tests.unit.sim.checks.brokers import Broker
from tests.unit.sim.checks.scripted import Member, breaks

from kohort.group.invariants import CONVERGES_AFTER_HEALING, EVERY_PARKED_REPLY_ANSWERED
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.sim.checks.convergence_checks import GRACE_US, EndChecker
from kohort.sim.checks.world_ledgers import Ledgers


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


def test_a_partition_that_nobody_owns_is_missed() -> None:
    broker, a = healed()
    broker.observer.owns(a, frozenset(TopicPartition("t", number) for number in range(3)))
    with breaks(CONVERGES_AFTER_HEALING, "nobody owns t-3"):
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
