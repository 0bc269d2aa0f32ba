"""Coroutines without an event loop: they continue inside the call that brings what they wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kohort.sim.kernel.scheduler import outcome_of, run


def test_a_coroutine_continues_inside_the_call_that_brings_its_outcome() -> None:
    waiting: list[Callable[..., None]] = []

    async def sum_of_two() -> int:
        first, _ = await outcome_of(waiting.append)
        (second,) = await outcome_of(waiting.append)
        return int(first) + int(second)

    done: list[int] = []
    run(sum_of_two(), done.append)
    waiting.pop()(1, "ignored")
    assert (len(waiting), done) == (1, [])
    waiting.pop()(2)
    assert done == [3]


def test_a_coroutine_that_waits_for_nothing_is_done_at_once() -> None:
    async def nothing() -> str:
        return "done"

    done: list[str] = []
    run(nothing(), done.append)
    assert done == ["done"]


def test_an_outcome_may_come_before_the_call_that_begins_returns() -> None:
    async def twice() -> list[tuple[Any, ...]]:
        return [await outcome_of(lambda resume: resume("one")), await outcome_of(lambda resume: resume("two"))]

    done: list[list[tuple[Any, ...]]] = []
    run(twice(), done.append)
    assert done == [[("one",), ("two",)]]


def test_what_a_coroutine_raises_reaches_the_call_that_continued_it() -> None:
    waiting: list[Callable[..., None]] = []

    async def fails() -> None:
        await outcome_of(waiting.append)
        raise ValueError("a defect")

    run(fails(), lambda _: None)
    with pytest.raises(ValueError, match="a defect"):
        waiting.pop()()
