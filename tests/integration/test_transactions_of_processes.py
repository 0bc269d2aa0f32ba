"""A process that is killed or frozen in the middle of a transaction leaves nothing half done."""

from __future__ import annotations

import asyncio

from tests.integration.ended_transformers import survive_a_frozen_one, survive_kills

from kohort.broker.embedded import EmbeddedBroker


def test_each_order_has_one_invoice_however_its_process_ends() -> None:
    async def run(bootstrap: str) -> None:
        async with asyncio.timeout(60):
            await survive_kills(bootstrap, 3)
            await survive_a_frozen_one(bootstrap)

    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(run(broker.bootstrap_servers))
