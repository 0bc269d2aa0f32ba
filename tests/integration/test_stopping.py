"""A consumer stops in bounded time, whatever its broker does, and at once where that is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.scenario_book import PATIENCE_MS, create, poll_until, produce, run
from tests.integration.test_sends import frozen

from kohort import sync
from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Consumer, Producer
from kohort.model.assignment import Partitions

COUNT = 10


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as found:
        yield found


async def reading(bootstrap: str, name: str, **settings: Any) -> Consumer:
    """Return a consumer whose user has ten records in hand."""
    await create(bootstrap, name, 1)
    await produce(bootstrap, name, COUNT)
    consumer = Consumer(bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest", **settings)
    await consumer.start()
    await consumer.subscribe(name)
    assert len((await consumer.poll(PATIENCE_MS))[0]) == COUNT
    return consumer


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("way", ["gone", "frozen"])
def test_a_consumer_stops_in_the_time_it_is_given_and_logs_what_was_not_committed(
    broker: EmbeddedBroker, way: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        consumer = await reading(bootstrap, name, group_protocol=protocol)
        revoked: list[Partitions] = []
        await consumer.subscribe(name, on_revoked=revoked.append)

        async def stop() -> None:
            async with asyncio.timeout(10):
                await consumer.stop(timeout_ms=400)

        if way == "gone":
            await asyncio.to_thread(broker.kill)
            await stop()
        else:
            with frozen(broker):
                await stop()
        assert len(revoked) == 1
        assert f"{COUNT} finished records could not be committed" in caplog.text

    with caplog.at_level(logging.WARNING):
        run(scenario, broker.bootstrap_servers, f"stops-{way}-{protocol}")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_stop_that_is_cancelled_ends_at_once(broker: EmbeddedBroker, protocol: str) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        consumer = await reading(bootstrap, name, group_protocol=protocol)
        with frozen(broker):
            stopping = asyncio.create_task(consumer.stop())
            await asyncio.sleep(0)
            stopping.cancel()
            async with asyncio.timeout(10):
                await asyncio.gather(stopping, return_exceptions=True)
        assert stopping.cancelled()

    run(scenario, broker.bootstrap_servers, f"cancelled-{protocol}")


def test_a_blocking_consumer_stops_in_the_time_it_is_given(broker: EmbeddedBroker) -> None:
    asyncio.run(create(broker.bootstrap_servers, "blocking", 1))
    consumer = sync.Consumer("blocking", bootstrap_servers=broker.bootstrap_servers, group_id="blocking")
    consumer.start()
    while not consumer.assignment():
        consumer.poll(PATIENCE_MS // 100)
    with frozen(broker):
        consumer.stop(timeout_ms=300)


@pytest.mark.parametrize("seconds", [1.0, 0.5, True, "1"])
def test_a_time_that_is_no_whole_number_of_milliseconds_is_a_type_error(broker: EmbeddedBroker, seconds: Any) -> None:
    async def scenario(bootstrap: str, name: str) -> None:
        await create(bootstrap, name, 1)
        async with Consumer(name, bootstrap_servers=bootstrap) as consumer, Producer(bootstrap) as producer:
            await poll_until(consumer, lambda: bool(consumer.assignment()))
            [partition] = consumer.assignment()
            for begin in (
                lambda: consumer.poll(seconds),
                lambda: consumer.position(partition, timeout_ms=seconds),
                lambda: consumer.stop(timeout_ms=seconds),
                lambda: producer.stop(timeout_ms=seconds),
            ):
                with pytest.raises(TypeError, match=r"timeout_ms=.* expected a whole number of milliseconds"):
                    await begin()

    run(scenario, broker.bootstrap_servers, "floats")
