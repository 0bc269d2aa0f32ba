"""Connections of a program in virtual time: asyncio's protocols over the simulated network."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from random import Random

import pytest

from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import End, Network
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.programs.virtual_loop import NotSimulated, VirtualLoop

ADDRESS = ("n1", 9092)


class Site:
    """A program on `app`, and a server on `n1` that answers what `serve` says."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, Random(1))
        self.app, self.server = Host("app", self.scheduler), Host("n1", self.scheduler)
        self.loop = VirtualLoop(self.app, self.network, Random(2))
        self.ends: list[End] = []
        self.received = b""
        self.network.listen(ADDRESS, self.server, self.accept)

    def accept(self, end: End) -> None:
        self.ends.append(end)
        end.on_bytes = self.receive

    def receive(self, chunk: bytes) -> None:
        self.received += chunk

    def connect(self, protocol: asyncio.BaseProtocol) -> asyncio.Transport:
        transport, _ = self.loop.run_until_complete(self.loop.create_connection(lambda: protocol, *ADDRESS))
        self.pass_ms(1)
        return transport

    def pass_ms(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1000)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.loop.close()


class Plain(asyncio.Protocol):
    """Records the calls of its transport."""

    def __init__(self, *, keeps_open: bool = False) -> None:
        self.calls: list[str] = []
        self.received = b""
        self.error: Exception | None = None
        self.keeps_open = keeps_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return self.keeps_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.error = exc

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


class Small(asyncio.BufferedProtocol):
    """Takes bytes through a buffer of four."""

    def __init__(self) -> None:
        self.buffer = bytearray(4)
        self.received = b""

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]


def test_what_is_written_arrives_and_what_comes_back_is_received(site: Site) -> None:
    protocol = Plain()
    transport = site.connect(protocol)
    transport.writelines([b"he", memoryview(b"llo")])
    site.pass_ms(5)
    assert site.received == b"hello"
    site.ends[0].send(b"and you")
    site.pass_ms(5)
    assert protocol.received == b"and you"
    assert transport.get_extra_info("peername") == ADDRESS


def test_a_buffered_protocol_gets_a_chunk_that_is_larger_than_its_buffer_in_parts(site: Site) -> None:
    protocol = Small()
    site.connect(protocol)
    site.ends[0].send(b"0123456789")
    site.pass_ms(5)
    assert protocol.received == b"0123456789"


def test_nothing_is_received_while_reading_is_paused(site: Site) -> None:
    protocol = Plain()
    transport = site.connect(protocol)
    transport.pause_reading()
    site.ends[0].send(b"one")
    site.ends[0].send(b"two")
    site.pass_ms(50)
    assert protocol.received == b""
    transport.resume_reading()
    site.pass_ms(1)
    assert protocol.received == b"onetwo"


def test_a_program_that_writes_into_a_blocked_path_is_paused_until_it_is_free(site: Site) -> None:
    protocol = Plain()
    transport = site.connect(protocol)
    transport.set_write_buffer_limits(high=10)
    site.network.block("app", "n1")
    transport.write(b"0123456789")
    assert protocol.calls == ["made"]
    transport.write(b"x")
    assert protocol.calls == ["made", "pause"]
    assert transport.get_write_buffer_size() == 11
    site.network.unblock("app", "n1")
    site.pass_ms(50)
    assert protocol.calls == ["made", "pause", "resume"]
    assert site.received == b"0123456789x"


def test_the_end_of_the_stream_is_reported_before_the_loss_of_the_connection(site: Site) -> None:
    protocol = Plain()
    site.connect(protocol)
    site.ends[0].send(b"bye")
    site.ends[0].close()
    site.pass_ms(5)
    assert (protocol.received, protocol.calls, protocol.error) == (b"bye", ["made", "eof", "lost"], None)


def test_a_protocol_that_leaves_its_side_open_is_not_lost(site: Site) -> None:
    protocol = Plain(keeps_open=True)
    transport = site.connect(protocol)
    site.ends[0].close()
    site.pass_ms(5)
    assert protocol.calls == ["made", "eof"]
    transport.close()
    site.pass_ms(5)
    assert protocol.calls == ["made", "eof", "lost"]


def test_a_server_that_is_killed_resets_its_connections(site: Site) -> None:
    protocol = Plain()
    site.connect(protocol)
    site.network.close_all(site.server)
    site.server.kill()
    site.pass_ms(5)
    assert protocol.calls == ["made", "lost"]
    assert isinstance(protocol.error, ConnectionResetError)


def test_a_connection_that_is_closed_takes_nothing_more(site: Site) -> None:
    protocol = Plain()
    transport = site.connect(protocol)
    transport.write(b"last")
    transport.close()
    transport.write(b"too late")
    site.pass_ms(5)
    assert site.received == b"last"
    assert transport.is_closing()
    assert protocol.calls == ["made", "lost"]


def test_no_listener_and_a_blocked_path_raise_the_errors_of_the_system(site: Site) -> None:
    async def connect(port: int) -> None:
        await site.loop.create_connection(asyncio.Protocol, "n1", port)

    with pytest.raises(ConnectionRefusedError, match="Connect call failed"):
        site.loop.run_until_complete(connect(1))
    site.network.block("n1", "app")
    with pytest.raises(TimeoutError) as timed_out:
        site.loop.run_until_complete(connect(9092))
    assert timed_out.value.errno == errno.ETIMEDOUT


def test_who_abandons_connecting_leaves_no_connection_behind(site: Site) -> None:
    async def connect() -> None:
        async with asyncio.timeout(0.0001):
            await site.loop.create_connection(asyncio.Protocol, *ADDRESS)

    with pytest.raises(TimeoutError):
        site.loop.run_until_complete(connect())
    site.pass_ms(10)
    assert site.network.open_ends("app") == []
    assert site.network.open_ends("n1") == []


def test_streams_work_over_it(site: Site) -> None:
    async def talk() -> bytes:
        reader, writer = await asyncio.open_connection(*ADDRESS)
        writer.write(b"ping\n")
        await writer.drain()
        await asyncio.sleep(0.01)
        site.ends[0].send(site.received.upper())
        line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return line

    assert site.loop.run_until_complete(talk()) == b"PING\n"


def test_tls_is_not_simulated(site: Site) -> None:
    with pytest.raises(NotSimulated, match="no TLS"):
        site.loop.run_until_complete(site.loop.create_connection(asyncio.Protocol, *ADDRESS, ssl=True))
