"""What a broker does to a connection is what its client sees behind a gateway: refused, reset, closed, silent.

A client distinguishes them: franz-go connects again after a reset, and takes an end of the stream before the first
answer for a broker that speaks another protocol, so that its member leaves the group.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from struct import pack

import pytest
from tests.integration.relayed_port import Run, Shared, answer, request

from kohort.gateway.server.node_port import NodePort, Upstream
from kohort.gateway.server.socket_splice import WORTH_BYTES

BIG = 20 * WORTH_BYTES


class RawBroker:
    """A listening socket, and the one connection that came to it, of which the test decides everything."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.setblocking(False)
        self.port = int(self.listening.getsockname()[1])

    async def accepted(self) -> socket.socket:
        """Return the next connection."""
        connection, _ = await asyncio.get_running_loop().sock_accept(self.listening)
        return connection


def reset(connection: socket.socket) -> None:
    """Close a connection by RST, as a kernel does with one whose process was killed before it read everything."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
    connection.close()


@asynccontextmanager
async def client_of(broker: RawBroker, shared: Shared | None = None) -> AsyncIterator[socket.socket]:
    """Connect a client through a gateway's port before a broker."""
    port = NodePort(Upstream(1, "127.0.0.1", broker.port), shared or Shared())
    port.bind("127.0.0.1", 0)
    await port.serve()
    client = socket.socket()
    client.setblocking(False)
    try:
        async with asyncio.timeout(30):
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port.port))
            yield client
    finally:
        client.close()
        await port.close("the test ends")
        broker.listening.close()


async def received(connection: socket.socket, count: int) -> bytes:
    """Return so many bytes of a connection."""
    data = b""
    while len(data) < count:
        chunk = await asyncio.get_running_loop().sock_recv(connection, count - len(data))
        assert chunk, "the connection has not ended"
        data += chunk
    return data


async def sent(connection: socket.socket, data: bytes) -> None:
    """Send bytes."""
    await asyncio.get_running_loop().sock_sendall(connection, data)


async def end_of(connection: socket.socket) -> str:
    """Return how a connection ends, whatever comes before."""
    try:
        while await asyncio.get_running_loop().sock_recv(connection, 1 << 20):
            pass
    except ConnectionResetError:
        return "reset"
    return "closed"


def test_a_broker_that_refuses_resets_the_connection_of_its_client(run: Run) -> None:
    async def scenario() -> None:
        broker = RawBroker()
        broker.listening.close()
        async with client_of(broker) as client:
            assert await end_of(client) == "reset"

    run(scenario())


def test_a_client_beyond_the_limit_of_connections_is_reset(run: Run) -> None:
    class Full(Shared):
        def admits(self) -> bool:
            return False

    async def scenario() -> None:
        async with client_of(RawBroker(), Full()) as client:
            assert await end_of(client) == "reset"

    run(scenario())


@pytest.mark.parametrize("answered", [0, 1])
@pytest.mark.parametrize("how", ["reset", "closed"])
def test_a_client_sees_how_its_broker_ends_the_connection(run: Run, how: str, answered: int) -> None:
    async def scenario() -> None:
        broker = RawBroker()
        async with client_of(broker) as client:
            connection = await broker.accepted()
            for number in range(answered):
                await sent(client, request(number))
                assert await received(connection, 14) == request(number)
                await sent(connection, answer(number, 100))
                assert await received(client, 108) == answer(number, 100)
            if how == "reset":
                reset(connection)
            else:
                connection.close()
            assert await end_of(client) == how

    run(scenario())


@pytest.mark.parametrize("how", ["reset", "closed"])
def test_a_client_sees_how_its_broker_ends_in_the_middle_of_a_large_answer(run: Run, how: str) -> None:
    async def scenario() -> None:
        broker = RawBroker()
        shared = Shared()
        async with client_of(broker, shared) as client:
            connection = await broker.accepted()
            await sent(client, request(0))
            await received(connection, 14)
            whole = answer(0, BIG)
            await sent(connection, whole[: BIG // 2])
            assert await received(client, BIG // 2) == whole[: BIG // 2]
            if how == "reset":
                reset(connection)
            else:
                connection.close()
            assert await end_of(client) == how
            assert shared.splices.moved_bytes

    run(scenario())


def test_a_broker_that_does_not_answer_leaves_its_client_without_an_answer(run: Run) -> None:
    async def scenario() -> None:
        broker = RawBroker()
        async with client_of(broker) as client:
            connection = await broker.accepted()
            await sent(client, request(0) + request(1))
            await received(connection, 28)
            await sent(connection, answer(0, 100))
            await received(client, 108)
            with pytest.raises(BlockingIOError):
                client.recv(1)
            connection.close()

    run(scenario())
