"""The user and the group take gate."""

from __future__ import annotations

import asyncio

import pytest

from kohort.client.consumer.rebalance_callbacks import CallbackGate
from kohort.client.membership.user_callbacks import CallbackAbandoned
from kohort.client.synchronization import BroadcastEvent


async def settle() -> None:
    """Let everything that can run, run."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_revocation_waits_for_a_user_that_holds_records() -> None:
    async def scenario() -> None:
        gate = CallbackGate(BroadcastEvent())
        gate.records_returned()
        ran: list[bool] = []

        async def revoke() -> None:
            async with gate.callback(waits=True):
                ran.append(gate.is_open)

        task = asyncio.create_task(revoke())
        await settle()
        assert not ran
        gate.records_finished()
        await task
        assert ran == [False], "nothing is handed out meanwhile"
        assert gate.is_open

    asyncio.run(scenario())


def test_a_callback_that_need_not_wait_does_not() -> None:
    async def scenario() -> None:
        gate = CallbackGate(BroadcastEvent())
        gate.records_returned()
        async with gate.callback():
            assert not gate.is_open
        assert gate.is_open

    asyncio.run(scenario())


def test_a_revocation_that_came_too_late_is_abandoned() -> None:
    async def scenario() -> None:
        changed = BroadcastEvent()
        gate = CallbackGate(changed)
        gate.records_returned()
        is_out = False

        async def revoke() -> None:
            async with gate.callback(waits=True, is_too_late=lambda: is_out):
                raise AssertionError("it must not run")

        task = asyncio.create_task(revoke())
        await settle()
        is_out = True
        changed.notify()
        with pytest.raises(CallbackAbandoned):
            await task
        assert gate.is_open

    asyncio.run(scenario())


def test_a_callback_that_raises_gives_the_turn_back() -> None:
    async def scenario() -> None:
        gate = CallbackGate(BroadcastEvent())
        with pytest.raises(LookupError):
            async with gate.callback():
                raise LookupError
        assert gate.is_open

    asyncio.run(scenario())
