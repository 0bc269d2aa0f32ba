"""Answers find their requests in order, and requests without an answer take no memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.gateway.rewriting.address_relay import MOST_ENTRIES, AwaitedAnswers, UnclearAnswers

PRODUCE, METADATA = (0, 9), (3, 12)


def test_an_answer_belongs_to_the_oldest_request_with_its_correlation_id() -> None:
    awaited = AwaitedAnswers()
    awaited.sent(*PRODUCE, 5)
    awaited.sent(*METADATA, 6)
    awaited.sent(*PRODUCE, 5)
    assert awaited.answered(5) == PRODUCE
    assert awaited.answered(6) == METADATA
    assert awaited.answered(5) == PRODUCE
    assert awaited.answered(5) is None


def test_another_request_with_an_id_that_may_have_no_answer_is_refused() -> None:
    awaited = AwaitedAnswers()
    awaited.sent(*PRODUCE, 5)
    awaited.sent(*PRODUCE, 8)
    with pytest.raises(UnclearAnswers, match="another request with the correlation id 7"):
        awaited.sent(*METADATA, 7)
    awaited.sent(*METADATA, 9)


def test_requests_without_an_answer_are_limited() -> None:
    awaited = AwaitedAnswers()
    for number in range(MOST_ENTRIES):
        awaited.sent(0, number % 2, number)
    with pytest.raises(UnclearAnswers, match=f"last {MOST_ENTRIES} requests"):
        awaited.sent(*METADATA, MOST_ENTRIES)


def test_requests_older_than_the_one_answered_have_no_answer() -> None:
    awaited = AwaitedAnswers()
    for number in range(3):
        awaited.sent(*PRODUCE, number)  # acks=0
    awaited.sent(*METADATA, 3)
    assert awaited.answered(3) == METADATA
    assert len(awaited) == 0
    assert awaited.answered(1) is None


def test_a_producer_that_never_gets_an_answer_takes_no_memory() -> None:
    awaited = AwaitedAnswers()
    for number in range(100_000):
        awaited.sent(*PRODUCE, number)
    assert len(awaited) == 1
    assert awaited.answered(99_000) == PRODUCE
    assert awaited.answered(98_000) is None


def test_correlation_ids_that_begin_anew_are_found() -> None:
    awaited = AwaitedAnswers()
    for number in (0x7FFFFFFE, 0x7FFFFFFF, -0x80000000, -0x7FFFFFFF):
        awaited.sent(*PRODUCE, number)
    assert len(awaited) == 2
    for number in (0x7FFFFFFE, 0x7FFFFFFF, -0x80000000, -0x7FFFFFFF):
        assert awaited.answered(number) == PRODUCE
    assert len(awaited) == 0


@given(st.lists(st.tuples(st.sampled_from([PRODUCE, METADATA]), st.booleans()), max_size=30), st.data())
def test_with_ids_that_grow_every_answer_finds_its_request(
    requests: list[tuple[tuple[int, int], bool]], data: st.DataObject
) -> None:
    awaited, open_requests = AwaitedAnswers(), []
    for number, (request, is_answered) in enumerate(requests):
        awaited.sent(*request, number)
        open_requests.append((number, request, is_answered or request is METADATA))
        while open_requests and data.draw(st.booleans()):
            number_, request_, is_answered_ = open_requests.pop(0)
            if is_answered_:
                assert awaited.answered(number_) == request_
