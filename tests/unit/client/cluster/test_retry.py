"""The one retry policy."""

from __future__ import annotations

import asyncio

import pytest

from kohort.client.cluster.retry import Waits, is_worth_a_retry, retry
from kohort.model.errors import ErrorCode, KafkaError


def attempts(*outcomes: ErrorCode | str) -> tuple[list[ErrorCode | str], object]:
    left = list(outcomes)

    async def attempt() -> str:
        outcome = left.pop(0)
        if isinstance(outcome, ErrorCode):
            raise KafkaError(outcome)
        return outcome

    return left, attempt


def tried(*outcomes: ErrorCode | str, timeout_ms: int = 10_000) -> tuple[int, str]:
    left, attempt = attempts(*outcomes)
    waits = Waits(lambda: 0.5, initial_ms=1, limit_ms=1)
    result = asyncio.run(retry(attempt, waits=waits, timeout_ms=timeout_ms))  # type: ignore[arg-type]
    return len(outcomes) - len(left), result


def test_what_may_pass_is_tried_again() -> None:
    assert tried(ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION, "done") == (3, "done")


def test_what_will_not_pass_is_raised_at_once() -> None:
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        tried(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "never")


def test_the_last_error_is_raised_when_time_is_up() -> None:
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        tried(ErrorCode.NOT_COORDINATOR, "never", timeout_ms=0)


def test_a_broker_that_is_down_may_come_back() -> None:
    assert is_worth_a_retry(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE))
    assert not is_worth_a_retry(KafkaError(ErrorCode.FENCED_INSTANCE_ID))


def test_waits_double_with_jitter_and_begin_again() -> None:
    waits = Waits(lambda: 1.0, initial_ms=100, limit_ms=1000)
    assert [round(waits.next_s(), 3) for _ in range(5)] == [0.12, 0.24, 0.48, 0.96, 1.2]
    waits.reset()
    assert round(waits.next_s(), 3) == 0.12
