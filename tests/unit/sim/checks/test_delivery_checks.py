"""Everything is read, in order, and again only what was not committed."""

from __future__ import annotations

from typing import Any

from tests.unit.sim.checks.scripted import Script, breaks, classic, commit, generation, of

from kohort.group.events import OffsetDeleted
from kohort.model.cause import Cause, CauseKind
from kohort.model.ids import TopicPartition
from kohort.sim.checks.delivery_checks import ReadingChecker
from kohort.sim.checks.group_ledger import RENEWAL
from kohort.sim.checks.invariants import AT_LEAST_ONCE

P = TopicPartition("t", 0)


def reading(committed: int = 5) -> tuple[Script, Any]:
    """A member that has got a partition of which so much was committed."""
    script = Script(ReadingChecker)
    script.happens(*classic(A="t0", B=""), commit("B", committed))
    b = script.member("b")
    script.see.owns(b, of("t0"))
    script.see.position(b, P, 0, "reset")
    script.see.delivered(b, P, 0, committed)
    script.see.owns(b, of(""))
    a = script.member("a")
    script.see.owns(a, of("t0"))
    return script, a


def test_a_member_begins_where_its_group_has_committed() -> None:
    script, a = reading()
    script.see.position(a, P, 5, "committed")
    script.see.delivered(a, P, 5, 9)
    script.see.commit_sent(a, 1, {P: 9})
    assert script.times(AT_LEAST_ONCE) == 5


def test_what_was_committed_before_a_member_got_the_partition_is_not_read_again() -> None:
    script, a = reading()
    with breaks(AT_LEAST_ONCE, "a begins t-0 at 4 as committed", "between 5 and 5"):
        script.see.position(a, P, 4, "committed")


def test_a_commit_that_comes_meanwhile_moves_the_beginning() -> None:
    script, a = reading()
    script.happens(commit("A", 5))
    script.see.position(a, P, 5, "committed")


def test_nothing_is_skipped_by_a_beginning() -> None:
    script, a = reading()
    script.happens(commit("B", 8))
    with breaks(AT_LEAST_ONCE, "a begins t-0 at 8, and g had read up to 5 only"):
        script.see.position(a, P, 8, "committed")


def test_a_member_does_not_begin_anew_where_there_is_a_commit() -> None:
    script, a = reading()
    script.ledgers.nodes.append(_Broker(0, 9))
    with breaks(AT_LEAST_ONCE, "a begins t-0 anew at 0, and g had committed 5"):
        script.see.position(a, P, 0, "reset")


def test_a_member_begins_anew_where_the_commit_was_deleted_or_points_nowhere() -> None:
    script, a = reading()
    script.ledgers.nodes.append(_Broker(0, 3))
    script.see.position(a, P, 0, "reset")
    script, a = reading()
    script.ledgers.nodes.append(_Broker(0, 9))
    script.happens(OffsetDeleted("g", "t", 0, Cause(CauseKind.ADMIN_REQUEST, 0)))
    script.see.position(a, P, 0, "reset")


def test_records_follow_on_each_other() -> None:
    script, a = reading()
    script.see.position(a, P, 5, "committed")
    script.see.delivered(a, P, 5, 7)
    with breaks(AT_LEAST_ONCE, "a hands out t-0@8, and 7 was the next"):
        script.see.delivered(a, P, 8, 9)


def test_nothing_is_handed_out_of_what_was_revoked() -> None:
    script, a = reading()
    script.see.position(a, P, 5, "committed")
    script.see.owns(a, of(""))
    with breaks(AT_LEAST_ONCE, "does not own the partition any more"):
        script.see.delivered(a, P, 5, 7)


def test_nothing_is_committed_that_was_not_handed_out() -> None:
    script, a = reading()
    script.see.position(a, P, 5, "committed")
    with breaks(AT_LEAST_ONCE, "a commits t-0@6, and was handed out up to 5"):
        script.see.commit_sent(a, 1, {P: 6})


def test_a_commit_of_a_topic_that_was_made_anew_may_be_one_of_the_old_topic() -> None:
    script, a = reading()
    script.see.position(a, P, 5, "committed")
    script.see.fault(RENEWAL, P.topic, "answered")
    script.see.commit_sent(a, 1, {P: 6})


def test_an_operator_may_move_a_group_past_records() -> None:
    script, a = reading()
    script.see.owns(a, of(""))
    script.happens(generation(2, []), commit("", 8))
    script.see.owns(a, of("t0"))
    script.see.position(a, P, 8, "committed")


def test_in_the_end_everything_in_the_log_was_handed_out() -> None:
    script, a = reading()
    script.ledgers.nodes.append(_Broker(0, 9))
    script.see.position(a, P, 5, "committed")
    script.see.delivered(a, P, 5, 9)
    script.see.ended()
    script.ledgers.nodes[:] = [_Broker(0, 10)]
    with breaks(AT_LEAST_ONCE, "a owns t-0 of g and has read up to 9 of 10"):
        script.see.ended()


class _Broker:
    """A node with one log, as far as the checker asks."""

    name = "n1"

    def __init__(self, start: int, end: int) -> None:
        self.node = self.topics = self.topic = self.log = self
        self.topic_id = b"T" * 16
        self.log_start_offset = start
        self.log_end_offset = end

    def partition(self, _: str, __: int) -> _Broker:
        return self
