"""Rebalances that something gets in the way of end all the same: a commit that hangs, a poll that is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.integration.scenario_book import PATIENCE_MS, create, poll_until, produce, run

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Consumer
from kohort.model.assignment import Partitions


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as found:
        yield found


def test_a_commit_that_hangs_does_not_keep_the_revoked_callback_from_running(broker: EmbeddedBroker) -> None:
    """Kafka gives the commit up with the rebalance timeout and goes on to the listener (KAFKA-13310)."""

    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 1)
        await produce(bootstrap, name, 10)
        revoked: list[Partitions] = []
        async with Consumer(
            bootstrap_servers=bootstrap,
            group_id=name,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            max_poll_interval_ms=600,
            auto_commit_interval_ms=600_000,
        ) as consumer:
            await consumer.subscribe(name, on_revoked=revoked.append)
            assert len((await consumer.poll(PATIENCE_MS))[0]) == 10
            await asyncio.to_thread(broker.kill)
            consumer.enforce_rebalance()
            await poll_until(consumer, lambda: bool(revoked))
            assert [len(partitions) for partitions in revoked] == [1]
            broker.start()
            await poll_until(consumer, lambda: bool(consumer.assignment()))

    run(scenario, broker.bootstrap_servers, "hangs")


def test_a_poll_that_is_cancelled_again_and_again_loses_nothing_of_the_rebalance(broker: EmbeddedBroker) -> None:
    """The member lives in a task of its own: nothing its user gives up on stops it, and no callback runs twice."""

    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 1)
        await produce(bootstrap, name, 10)
        callbacks: list[str] = []
        async with Consumer(
            bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest", heartbeat_interval_ms=100
        ) as consumer:
            await consumer.subscribe(
                name,
                on_assigned=lambda _: callbacks.append("assigned"),
                on_revoked=lambda _: callbacks.append("revoked"),
            )
            for rounds in range(4):
                while callbacks.count("assigned") == rounds:
                    poll = asyncio.create_task(consumer.poll(PATIENCE_MS))
                    await asyncio.sleep(0)
                    poll.cancel()
                    await asyncio.gather(poll, return_exceptions=True)
                consumer.enforce_rebalance()
            await poll_until(consumer, lambda: callbacks.count("assigned") == 5)
            assert callbacks == ["assigned", "revoked"] * 4 + ["assigned"]
        assert callbacks[-1] == "revoked"

    run(scenario, broker.bootstrap_servers, "cancelled")
