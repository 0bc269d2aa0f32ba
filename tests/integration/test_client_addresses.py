"""A client whose broker's name has several addresses: one that accepts and does not answer is left for the next."""

from __future__ import annotations

import asyncio
import random
import socket
from contextlib import closing
from typing import Any

import pytest
from interop.ports import free_port
from tests.integration.relayed_port import Shared

from kohort.broker.embedded import EmbeddedBroker
from kohort.client.cluster.connection_pool import Pool
from kohort.client.cluster.metadata import Broker
from kohort.gateway.server.node_port import NodePort, Upstream
from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.blocking_connection import BlockingConnection
from kohort.wire.messages import MetadataRequest

NAME, ADDRESSES = "two.test", ("127.0.0.1", "127.0.0.2")


class Resolving(asyncio.SelectorEventLoop):
    """An event loop whose system has two addresses for a name."""

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        if host != NAME:
            return await super().getaddrinfo(host, port, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ADDRESSES]


def test_an_address_that_hangs_is_left_for_the_next_one(shared_broker: EmbeddedBroker) -> None:
    host, port = shared_broker.bootstrap_servers.split(":")

    async def scenario() -> None:
        shared, at = Shared(), free_port()
        relay = NodePort(Upstream(1, host, int(port)), shared)
        relay.bind(ADDRESSES[1], at)
        await relay.serve()
        with socket.create_server((ADDRESSES[0], at)):  # the kernel accepts, nothing answers
            pool = Pool("client", random.random, 1_500, None, None)
            broker = Broker(1, NAME, at)
            with pytest.raises(KafkaError, match=f"{NAME}:{at} did not answer within 1500 ms"):
                await pool.connection(broker)
            first = await pool.connection(broker)
            second = await pool.connection(broker, "another lane")
            assert len(relay.links) == 2
            assert await pool.open_apart(broker)
            first.close()  # each that ends leads to the next address, and is found again there
            with pytest.raises(KafkaError):
                await pool.connection(broker)
            assert await pool.connection(broker)
            assert not second.is_closed
            pool.close()
        await relay.close("the test ends")

    with asyncio.Runner(loop_factory=Resolving) as runner:
        runner.run(scenario())


def test_a_blocking_connection_leaves_an_address_that_hangs_or_refuses_for_the_next_one(
    shared_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, port = shared_broker.bootstrap_servers.split(":")
    hanging, refusing = "127.0.0.2", "127.0.0.3"
    addresses = {NAME: [hanging, refusing, host], "none.test": [refusing, hanging]}
    resolve = socket.getaddrinfo

    def resolved(name: Any, *rest: Any, **more: Any) -> list[Any]:
        return [each for at in addresses.get(name, [name]) for each in resolve(at, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with socket.create_server((hanging, int(port))):  # the kernel accepts, nothing answers
        with closing(BlockingConnection(NAME, int(port), "client", timeout_ms=300)) as connection:
            assert connection.call(MetadataRequest()).brokers
        with pytest.raises(KafkaError, match=f"none.test:{port} did not answer within 300 ms") as refused:
            BlockingConnection("none.test", int(port), "client", timeout_ms=300)
        assert refused.value.code is ErrorCode.NETWORK_EXCEPTION, "readers of ranges try the next bootstrap server then"
