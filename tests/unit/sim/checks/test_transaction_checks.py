"""Transactions of a world: what breaks each rule."""

from __future__ import annotations

import pytest

from kohort.model.ids import TopicPartition
from kohort.sim.checks.checker import InvariantBroken
from kohort.sim.checks.transaction_checks import TransactionChecker

OUT = TopicPartition("out", 0)


def checker_with(records: int = 2) -> TransactionChecker:
    checker = TransactionChecker()
    checker.producer_identified("x1", 7, 0)
    checker.transaction_began("x1", 1, records)
    return checker


def read(checker: TransactionChecker, *values: bytes, stable: int = 10) -> None:
    checker.committed_read(OUT, list(enumerate(values)), len(values), stable)


def broken_by(invariant: str) -> pytest.RaisesExc[InvariantBroken]:
    return pytest.raises(InvariantBroken, match=f"^{invariant} ")


def test_a_record_of_an_open_transaction_is_not_read() -> None:
    with broken_by("AbortedStaysUnread"):
        read(checker_with(), b"x1:1:0")


def test_a_record_of_an_aborted_transaction_is_not_read() -> None:
    checker = checker_with()
    checker.transaction_ending("x1", 1, False)
    checker.transaction_ended("x1", 1, False)
    with broken_by("AbortedStaysUnread"):
        read(checker, b"x1:1:0")


def test_a_record_is_read_once() -> None:
    checker = checker_with()
    checker.transaction_ending("x1", 1, True)
    with broken_by("AllOrNothing"):
        read(checker, b"x1:1:0", b"x1:1:0")


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_part_of_a_transaction_is_not_enough(is_answered: bool) -> None:
    checker = checker_with()
    checker.transaction_ending("x1", 1, True)
    if is_answered:
        checker.transaction_ended("x1", 1, True)
    read(checker, b"x1:1:0")
    with broken_by("AllOrNothing"):
        checker.ended()


def test_nothing_of_a_commit_without_an_answer_may_count() -> None:
    checker = checker_with()
    checker.transaction_ending("x1", 1, True)
    checker.ended()
    assert checker.checked["AllOrNothing"] == 1


def test_the_offset_of_a_committed_transaction_is_not_lost() -> None:
    checker = checker_with()
    checker.transaction_ending("x1", 1, True)
    checker.transaction_ended("x1", 1, True)
    with broken_by("AllOrNothing"):
        checker.transaction_offset_found("x1", -1, checker.now_us)


def test_an_offset_that_was_requested_before_the_commit_may_be_older() -> None:
    checker = checker_with()
    checker.transaction_ending("x1", 1, True)
    checker.transaction_ended("x1", 1, True)
    checker.transaction_offset_found("x1", -1, checker.now_us - 1)
    assert checker.checked["AllOrNothing"] == 1


def test_the_offset_of_an_open_transaction_does_not_count() -> None:
    with broken_by("AllOrNothing"):
        checker_with().transaction_offset_found("x1", 1, 0)


def test_the_last_stable_offset_does_not_go_back() -> None:
    checker = checker_with()
    read(checker, stable=5)
    with broken_by("StableOffsetMoves"):
        read(checker, stable=4)


def test_nothing_is_read_beyond_the_last_stable_offset() -> None:
    checker = checker_with()
    checker.transaction_ending("x1", 1, True)
    with broken_by("StableOffsetMoves"):
        read(checker, b"x1:1:0", b"x1:1:1", stable=1)
