"""A load balancer before a gateway names its clients (PROXY protocol): in groups, in the log, ahead of TLS too."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from ipaddress import ip_network
from pathlib import Path

import pytest
from interop.unavailable import Unavailable
from tests.integration.relayed_port import Run, Shared
from tests.integration.running_gateway import RunningGateway
from tests.interop.certificates import authority, signed

from kohort import sync
from kohort.broker.embedded import EmbeddedBroker
from kohort.gateway.gateway_settings import ListenerTls
from kohort.gateway.server.proxied_listener import ProxiedListener
from kohort.gateway.server.traffic_counters import TrafficCounters
from kohort.wire.frames import encode_request
from kohort.wire.messages import ApiVersionsRequest

HERE = ("127.0.0.0/8",)
HEADER = b"PROXY TCP4 203.0.113.9 192.0.2.4 40000 9191\r\n"
REQUEST = encode_request(ApiVersionsRequest(), 0, 1, "client")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        with sync.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", 2)
        yield broker


class TcpProxy:
    """A listening socket whose connections are led to the same port of another host, with a header first."""

    def __init__(self, port: int, target_host: str, header: bytes) -> None:
        self._target = target_host, port
        self._header = header
        self._listening = socket.create_server(("127.0.0.1", port))
        self._open = [self._listening]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            gateway = socket.create_connection(self._target)
            gateway.sendall(self._header)
            self._open += client, gateway
            for ends in ((client, gateway), (gateway, client)):
                threading.Thread(target=_pass, args=ends, daemon=True).start()

    def close(self) -> None:
        """End the socket and its connections."""
        for each in self._open:
            with suppress(OSError):  # it has ended
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _pass(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # one of the two has ended
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_a_member_has_its_own_address_behind_a_balancer(broker: EmbeddedBroker) -> None:
    host = "127.0.0.2"
    with ExitStack() as stack:
        gateway = RunningGateway(broker.bootstrap_servers, listen_host=host, proxy_protocol_from=HERE)
        stack.enter_context(gateway)
        for port in (gateway.port, gateway.node_port):
            stack.enter_context(closing(TcpProxy(port, host, HEADER)))
        with sync.Consumer("t", bootstrap_servers=gateway.bootstrap_servers, group_id="g") as consumer:
            while len(consumer.assignment()) < 2:
                consumer.poll(timeout_ms=100)
            (group,) = gateway.server.gateway.groups.shard.groups.values()
            (member,) = group.members.values()
            assert member.client_host == "/203.0.113.9"


def answer_of(port: int, *parts: bytes) -> bytes:
    """Return what comes back on a connection; nothing where it is closed or reset."""
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        try:
            for part in parts:
                client.sendall(part)
            return client.recv(65_536)
        except ConnectionError:
            return b""


def test_a_connection_of_a_balancer_begins_with_a_header_and_no_other_does(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with RunningGateway(broker.bootstrap_servers, proxy_protocol_from=HERE) as gateway:
        assert answer_of(gateway.port, HEADER + REQUEST)
        assert answer_of(gateway.port, HEADER[:20], HEADER[20:], REQUEST[:9], REQUEST[9:])
        assert answer_of(gateway.port, b"PROXY UNKNOWN\r\n" + REQUEST)
        assert not caplog.records or "PROXY" not in caplog.text
        for _ in range(3):
            assert not answer_of(gateway.port, REQUEST)
        with socket.create_connection(("127.0.0.1", gateway.port)):
            pass  # a health check that connects and leaves
        nodes = gateway.server.ports.counters.nodes.values()
        assert sum(node.without_header for node in nodes) == 3
    lines = [record.getMessage() for record in caplog.records if "PROXY" in record.getMessage()]
    assert len(lines) == 1, "once a minute"
    assert "which is no PROXY header; it has to send the PROXY protocol, or leave proxy_protocol_from" in lines[0]
    caplog.clear()
    with RunningGateway(broker.bootstrap_servers, proxy_protocol_from=("192.0.2.4", "2001:db8::/64")) as gateway:
        assert answer_of(gateway.port, REQUEST)
        assert not answer_of(gateway.port, HEADER + REQUEST)
    assert "sent a PROXY header: it is to stand in proxy_protocol_from" in caplog.text


def test_the_header_comes_before_tls(broker: EmbeddedBroker, tmp_path: Path) -> None:
    try:
        ours = authority(tmp_path, "authority")
        tls = ListenerTls(certificate=str(signed(tmp_path, "gateway", ours, "IP:127.0.0.1")))
    except Unavailable as reason:
        pytest.skip(str(reason))
    context = ssl.create_default_context(cafile=ours.certificate)
    with (
        RunningGateway(broker.bootstrap_servers, proxy_protocol_from=HERE, listener_tls=tls) as gateway,
        socket.create_connection(("127.0.0.1", gateway.port), 10) as plain,
    ):
        plain.sendall(HEADER)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as client:
            client.sendall(REQUEST)
            assert client.recv(100)
            (link,) = next(port for port in gateway.ports() if port.links).links
            assert link.address == "203.0.113.9:40000"


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (HEADER[:-1], f"its PROXY header is not whole after 0.05 s: {len(HEADER) - 1} bytes have come"),
        (b"", "its PROXY header is not whole after 0.05 s: 0 bytes have come"),
    ],
)
def test_a_header_that_does_not_come_whole_ends_its_connection(run: Run, sent: bytes, text: str) -> None:
    refused = list[str]()

    async def serve(_client: socket.socket, _address: object) -> None:
        raise AssertionError

    async def scenario() -> None:
        listening, shared = socket.create_server(("127.0.0.1", 0)), Shared()
        networks = (ip_network("127.0.0.0/8"),)
        balanced = ProxiedListener(listening, networks, TrafficCounters(), shared.admits, serve, refused.append, 0.05)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(sent)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        balanced.close()
        await asyncio.sleep(0)

    run(scenario())
    assert len(refused) == 1
    assert text in refused[0]


def test_headers_that_have_not_come_count_as_connections(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kohort.gateway")

    async def scenario() -> None:
        listening, counters = socket.create_server(("127.0.0.1", 0)), TrafficCounters()
        accepted = asyncio.Event()

        def admits() -> bool:
            accepted.set()
            return counters.connections < 2

        async def serve(_client: socket.socket, _address: object) -> None:
            raise AssertionError

        networks = (ip_network("127.0.0.0/8"),)
        balanced = ProxiedListener(listening, networks, counters, admits, serve, pytest.fail)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        await accepted.wait()
        assert counters.connections == 1
        others = await asyncio.open_connection(*listening.getsockname())
        with pytest.raises(ConnectionResetError):
            await others[0].read()
        balanced.close()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        assert counters.connections == 0
        for each in (writer, others[1]):
            each.close()

    run(scenario())
    assert "too many connections are open" in caplog.text
