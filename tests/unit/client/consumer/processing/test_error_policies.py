"""Which policy decides about an exception, and what is refused before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kohort.client.consumer.processing.error_policies import DeadLetter, Delay, ErrorPolicies, Retry, seconds_of


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        *[("500ms", 0.5), ("1s", 1), ("1.5 s", 1.5), ("5m", 300), ("5min", 300), ("1h", 3_600), ("1d", 86_400)],
        *[(2, 2), (0.25, 0.25), (timedelta(minutes=1), 60)],
    ],
)
def test_a_delay_is_a_text_a_number_of_seconds_or_a_timedelta(delay: Delay, seconds: float) -> None:
    assert seconds_of(delay) == pytest.approx(seconds)


@pytest.mark.parametrize("delay", ["soon", "1 week", "", "-1s", -1, float("nan"), float("inf"), True, None])
def test_what_is_no_time_is_refused(delay: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="delays: "):
        seconds_of(delay)


def test_the_first_policy_that_holds_for_an_exception_decides() -> None:
    retry, letter = Retry(["1s"], on=(TimeoutError, ConnectionError)), DeadLetter("dlq", on=(ValueError,))
    policies = ErrorPolicies([retry, letter])
    assert policies.of(ConnectionResetError()) is retry
    assert policies.of(UnicodeDecodeError("utf-8", b"", 0, 1, "")) is letter
    assert policies.of(KeyError()) == "stop"
    assert ErrorPolicies("skip").of(KeyError()) == "skip"


def test_the_topics_for_dead_letters_are_those_of_every_policy() -> None:
    policies = ErrorPolicies([Retry([], then=DeadLetter("a")), DeadLetter("b"), "skip"])
    assert policies.dead_letter_topics == {"a", "b"}


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Retry("1s"), "is no list, such as ['1s', '1m']"),
        (lambda: Retry(["1s"], then="drop"), "Retry: then='drop' is neither 'stop' nor 'skip' nor a DeadLetter"),
        (lambda: Retry(["1s"], on=ValueError), "Retry: on=<class 'ValueError'> is no tuple of exceptions"),
        (lambda: Retry(["1s"], order="partition"), "order='partition' is neither 'key' nor 'none'"),
        (lambda: Retry(["1s"], topic="r"), "give order='none'"),
        (lambda: Retry(["1s"], park_after="late"), "'late' is no time"),
        (
            lambda: ErrorPolicies(Retry(["1s"], then=DeadLetter("r"), order="none", topic="r")),
            "r cannot be both a retry topic and a dead-letter topic",
        ),
        (lambda: DeadLetter(""), "topic='' is no name of a topic"),
        (lambda: ErrorPolicies(["retry"]), "on_error='retry' is neither"),
    ],
)
def test_what_cannot_be_meant_is_refused(make: Callable[[], object], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        make()
