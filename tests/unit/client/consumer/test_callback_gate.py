"""The user and the group take turns."""

from __future__ import annotations

import asyncio

import pytest

from kohort.client.broadcast_event import BroadcastEvent
from kohort.client.consumer.callback_gate import Turns
from kohort.client.rebalance_listener import CallbackAbandoned


async def settle() -> None:
    """Let everything that can run, run."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_revocation_waits_for_a_user_that_holds_records() -> None:
    async def scenario() -> None:
        turns = Turns(BroadcastEvent())
        turns.user_left()
        ran: list[bool] = []

        async def revoke() -> None:
            async with turns.callback(waits=True):
                ran.append(turns.is_free)

        task = asyncio.create_task(revoke())
        await settle()
        assert not ran
        turns.user_returned()
        await task
        assert ran == [False], "nothing is handed out meanwhile"
        assert turns.is_free

    asyncio.run(scenario())


def test_a_callback_that_need_not_wait_does_not() -> None:
    async def scenario() -> None:
        turns = Turns(BroadcastEvent())
        turns.user_left()
        async with turns.callback():
            assert not turns.is_free
        assert turns.is_free

    asyncio.run(scenario())


def test_a_revocation_that_came_too_late_is_abandoned() -> None:
    async def scenario() -> None:
        pulse = BroadcastEvent()
        turns = Turns(pulse)
        turns.user_left()
        is_out = False

        async def revoke() -> None:
            async with turns.callback(waits=True, is_too_late=lambda: is_out):
                raise AssertionError("it must not run")

        task = asyncio.create_task(revoke())
        await settle()
        is_out = True
        pulse.notify()
        with pytest.raises(CallbackAbandoned):
            await task
        assert turns.is_free

    asyncio.run(scenario())


def test_a_callback_that_raises_gives_the_turn_back() -> None:
    async def scenario() -> None:
        turns = Turns(BroadcastEvent())
        with pytest.raises(LookupError):
            async with turns.callback():
                raise LookupError
        assert turns.is_free

    asyncio.run(scenario())
