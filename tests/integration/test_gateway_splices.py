"""Large answers that pass a gateway inside the kernel: every byte once and in order, whatever the two ends do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from struct import unpack

import pytest
from tests.integration.relayed_port import Run, Shared, answer, request

from kohort.gateway.server.node_port import NodePort, Upstream
from kohort.gateway.server.socket_splice import MOST, WORTH_BYTES, SocketSplices

pytestmark = pytest.mark.skipif(not hasattr(os, "splice"), reason="only Linux moves bytes between sockets")


SIZES = (0, 10, WORTH_BYTES - 1, WORTH_BYTES, 3 * WORTH_BYTES, 5_000_003)


@asynccontextmanager
async def port_before(
    sizes: tuple[int, ...], *, truncated: int | None = None
) -> AsyncIterator[tuple[NodePort, Shared]]:
    """Listen before a broker that answers request n with `sizes[n]` bytes, or closes in the middle of `truncated`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (number,) = unpack(">8xi2x", await reader.readexactly(14))
                data = answer(number, sizes[number])
                if number == truncated:
                    writer.write(data[: len(data) * 3 // 4])
                    break
                writer.write(data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    broker = await asyncio.start_server(serve, "127.0.0.1", 0)
    shared = Shared()
    port = NodePort(Upstream(1, "127.0.0.1", broker.sockets[0].getsockname()[1]), shared)
    port.bind("127.0.0.1", 0)
    await port.serve()
    before = descriptors()
    try:
        yield port, shared
        async with asyncio.timeout(30):
            while port.links:
                await asyncio.sleep(0)
            shared.splices.close()
            while descriptors() > before:
                await asyncio.sleep(0)
    finally:
        await port.close("the test ends")
        broker.close()


def descriptors() -> int:
    """Return how many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


def test_answers_of_every_size_arrive_whole_and_in_order(run: Run) -> None:
    async def scenario() -> None:
        sizes = SIZES * 3
        async with port_before(sizes) as (port, shared):
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            writer.write(b"".join(map(request, range(len(sizes)))))  # pipelined: answers follow each other
            for number, size in enumerate(sizes):
                expected = answer(number, size)
                assert await reader.readexactly(len(expected)) == expected
            traffic = shared.counters.node(1)
            assert traffic.bytes_from_broker == sum(size + 8 for size in sizes)
            assert shared.splices.moved_bytes > 10_000_000
            writer.close()

    run(scenario())


def test_a_client_that_does_not_read_delays_its_own_answers_only(run: Run) -> None:
    async def scenario() -> None:
        big = 16 << 20
        async with port_before((big, 100)) as (port, _shared):
            frozen = [await asyncio.open_connection("127.0.0.1", port.port, limit=1) for _ in range(MOST)]
            for _reader, writer in frozen:
                writer.write(request(0))
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            for number, size in ((1, 100), (0, big)):
                writer.write(request(number))
                assert await reader.readexactly(size + 8) == answer(number, size)
            assert sum(link.buffered_bytes for link in port.links) <= (MOST + 1) << 21
            for _reader, each in [*frozen, (reader, writer)]:
                each.transport.abort()

    run(scenario())


def test_clients_that_do_not_read_give_way_to_one_that_does(run: Run) -> None:
    async def scenario() -> None:
        big = 16 << 20
        whole = answer(0, big)
        async with port_before((big,)) as (port, shared):
            shared.splices = SocketSplices(patience_s=0)
            frozen = [await asyncio.open_connection("127.0.0.1", port.port, limit=1) for _ in range(MOST)]
            for _reader, writer in frozen:
                writer.write(request(0))
            while sum(link.buffered_bytes > 0 for link in port.links) < MOST:
                await asyncio.sleep(0)
            before = shared.splices.moved_bytes
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            writer.write(request(0))
            assert await reader.readexactly(len(whole)) == whole
            assert shared.splices.moved_bytes - before > big / 2
            for late, _writer in frozen:
                assert await late.readexactly(len(whole)) == whole
            for _reader, each in [*frozen, (reader, writer)]:
                each.close()

    run(scenario())


@pytest.mark.parametrize("truncated", [0, 1])
def test_a_broker_that_vanishes_in_the_middle_closes_the_connection_after_what_it_sent(
    run: Run, truncated: int
) -> None:
    async def scenario() -> None:
        sizes = (5_000_000, 5_000_000)
        async with port_before(sizes, truncated=truncated) as (port, _shared):
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            writer.write(b"".join(map(request, range(2))))
            sent = b"".join(answer(number, sizes[number]) for number in range(truncated))
            last = answer(truncated, sizes[truncated])
            assert await reader.read(-1) == sent + last[: len(last) * 3 // 4]
            writer.close()

    run(scenario())


def test_clients_that_vanish_in_the_middle_leave_nothing_open(run: Run) -> None:
    async def scenario() -> None:
        async with port_before((20_000_000,)) as (port, shared):
            for read in range(0, 8_000_000, 500_000):
                reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
                writer.write(request(0))
                await reader.readexactly(read)
                writer.transport.abort()
            while port.links:
                await asyncio.sleep(0)
            assert shared.splices.has_room

    run(scenario())


def test_a_system_that_splices_no_sockets_passes_answers_through_memory(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_named: object) -> int:
        raise OSError(22, "Invalid argument")

    async def scenario() -> None:
        async with port_before((5_000_000,)) as (port, shared):
            monkeypatch.setattr(os, "splice", refuse)
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            writer.write(request(0))
            assert await reader.readexactly(5_000_008) == answer(0, 5_000_000)
            assert not shared.splices.has_room
            writer.close()

    run(scenario())
