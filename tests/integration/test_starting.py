"""Clients that are started before their broker is there, twice, and after they were stopped."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kohort import Admin, BrokerUnreachable, Consumer, Producer, sync
from kohort.testing import EmbeddedBroker

Make = Callable[[str], Any]
MAKERS: list[Make] = [
    Producer,
    lambda address: Admin(address, start_timeout_ms=300),
    lambda address: Consumer("t", bootstrap_servers=address, group_id="g"),
]
each_client = pytest.mark.parametrize("make", MAKERS, ids=["Producer", "Admin", "Consumer"])


@pytest.fixture
def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        number: int = found.getsockname()[1]
        return number


def test_clients_that_found_no_broker_are_started_again_when_there_is_one(port: int) -> None:
    async def scenario() -> None:
        address = f"127.0.0.1:{port}"
        clients = [make(address) for make in MAKERS]
        for refusal in await asyncio.gather(*(each.start() for each in clients), return_exceptions=True):
            assert isinstance(refusal, BrokerUnreachable), refusal
            assert address in str(refusal)
        with EmbeddedBroker(port=port):
            for each in clients:
                await each.start()
                await each.stop()

    asyncio.run(scenario())


def test_a_start_that_was_cancelled_may_be_made_again_at_once(port: int) -> None:
    async def scenario() -> None:
        client = Producer(f"127.0.0.1:{port}")
        starting = asyncio.create_task(client.start())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        with EmbeddedBroker(port=port):
            await client.start()
            assert (await (await client.send("t", b"x"))).offset == 0
            await client.stop()

    asyncio.run(scenario())


@each_client
def test_a_client_that_was_stopped_cannot_be_started_again(make: Make, kohort_broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        client = make(kohort_broker.bootstrap_servers)
        await client.start()
        await client.stop()
        with pytest.raises(RuntimeError, match="was stopped, and cannot be started again: make a new one"):
            await client.start()

    asyncio.run(scenario())


def test_a_second_start_does_nothing(kohort_broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        producer = Producer(kohort_broker.bootstrap_servers)
        await producer.start()
        first = await producer.send("t", b"0")
        async with producer:
            second = await producer.send("t", b"1")
        assert [(await first).offset, (await second).offset] == [0, 1]
        consumer = Consumer("t", bootstrap_servers=kohort_broker.bootstrap_servers, auto_offset_reset="earliest")
        await consumer.start()
        async with consumer:
            assert [(await anext(consumer)).value for _ in range(2)] == [b"0", b"1"]

    asyncio.run(scenario())


def test_a_blocking_client_is_started_again_too(port: int) -> None:
    client = sync.Producer(f"127.0.0.1:{port}")
    with pytest.raises(BrokerUnreachable):
        client.start()
    with EmbeddedBroker(port=port):
        client.start()
        assert client.send("t", b"x").result().offset == 0
        client.stop()
        client.stop()
        for call in (client.start, client.flush, lambda: client.send("t", b"x")):
            with pytest.raises(RuntimeError, match="this client was stopped: make a new one"):
                call()
    assert [thread.name for thread in threading.enumerate() if thread.name == "kohort clients"] == []


def test_a_consumer_that_subscribes_by_an_expression_again_waits_for_its_assignment() -> None:
    async def scenario(bootstrap: str) -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topic("t", 2)
        async with Consumer(bootstrap_servers=bootstrap, group_id="g") as consumer:
            await consumer.subscribe("^t")
            while len(consumer.assignment()) < 2:
                await consumer.poll(50)
            await consumer.unsubscribe()
            await consumer.subscribe("^t")
            assert consumer.assignment() == frozenset(), "nothing is read before the group has assigned it"
            while len(consumer.assignment()) < 2:
                await consumer.poll(50)

    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(scenario(broker.bootstrap_servers))
