"""asyncio under a blocking interface: results, exceptions, and an end that leaves nothing running."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from kohort.spark.loop_thread import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("test loop")
    yield made
    made.close()


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def refuse() -> None:
    raise LookupError("no such thing")


def test_a_call_returns_what_the_coroutine_returns(thread: LoopThread) -> None:
    assert thread.call(answer(7)) == 7


def test_a_call_raises_what_the_coroutine_raises(thread: LoopThread) -> None:
    with pytest.raises(LookupError, match="no such thing"):
        thread.call(refuse())


def test_a_wake_runs_in_the_loop_after_what_was_asked_before(thread: LoopThread) -> None:
    seen: list[str] = []
    thread.wake(lambda: seen.append(threading.current_thread().name))
    thread.call(answer(0))
    assert seen == ["test loop"]


def test_closing_cancels_what_still_runs() -> None:
    thread = LoopThread("test loop")
    seen: list[str] = []

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")

    async def start() -> asyncio.Task[None]:
        return asyncio.create_task(wait_for_ever())

    task = thread.call(start())
    thread.call(answer(0))
    thread.close()
    assert seen == ["cancelled"]
    assert task.cancelled()
    thread.wake(lambda: seen.append("too late"))
    thread.close()
    assert seen == ["cancelled"]
