from __future__ import annotations

import asyncio

from kohort.client.membership.user_callbacks import finished


def test_a_plain_callback_may_return_any_value() -> None:
    asyncio.run(finished(17))


def test_an_async_callback_is_awaited() -> None:
    ran: list[int] = []

    async def callback() -> None:
        ran.append(1)

    asyncio.run(finished(callback()))
    assert ran == [1]
