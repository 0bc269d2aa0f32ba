"""A process that is killed or frozen in the middle of a transaction leaves nothing half done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.integration.ended_transformers import BY_HAND, BY_PROCESS, survive_a_frozen_one, survive_kills

from kohort.broker.embedded import EmbeddedBroker


@pytest.mark.parametrize("example", [BY_HAND, BY_PROCESS], ids=["by hand", "by process"])
def test_each_order_has_one_invoice_however_its_process_ends(example: Path) -> None:
    async def run(bootstrap: str) -> None:
        async with asyncio.timeout(100):
            await survive_a_frozen_one(bootstrap, await survive_kills(bootstrap, 3, example), example)

    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(run(broker.bootstrap_servers))
