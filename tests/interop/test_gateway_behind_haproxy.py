"""HAProxy before a gateway, by each form of its headers: the client's address arrives, its health checks pass."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from interop.gateway_lab import haproxy
from interop.process import Child
from interop.unavailable import Unavailable
from interop.waiting import eventually
from tests.integration.running_gateway import RunningGateway

from kohort import sync
from kohort.broker.embedded import EmbeddedBroker
from kohort.wire.frames import encode_request
from kohort.wire.messages import ApiVersionsRequest

CLIENT = "127.0.0.7"
GATEWAY = "127.0.0.2"
REQUEST = encode_request(ApiVersionsRequest(), 0, 1, "client")
FORMS = {
    "version 1": "send-proxy",
    "version 2": "send-proxy-v2",
    "version 2 with records": "send-proxy-v2-ssl-cn proxy-v2-options crc32c,unique-id",
}
CONFIGURATION = """
global
    stats socket {stats} mode 600 level admin
defaults
    mode tcp
    timeout connect 2s
    timeout client 1m
    timeout server 1m
listen begin
    bind 127.0.0.1:{begin}
    unique-id-format %Ts-%ci
    server gateway {gateway}:{begin} {form} check check-send-proxy inter 100ms
listen node
    bind 127.0.0.1:{node}
    unique-id-format %Ts-%ci
    server gateway {gateway}:{node} {form} check check-send-proxy inter 100ms
"""


@contextmanager
def balanced(gateway: RunningGateway, form: str, folder: Path) -> Iterator[Path]:
    """Run HAProxy before a gateway; return the socket of its statistics."""
    stats, file = folder / "stats", folder / "haproxy.cfg"
    ports = {"begin": gateway.port, "node": gateway.node_port}
    file.write_text(CONFIGURATION.format(stats=stats, gateway=GATEWAY, form=form, **ports))
    child = Child([haproxy(), "-db", "-f", str(file)], folder / "haproxy.log")
    try:
        eventually(stats.exists, True)
        yield stats
    finally:
        child.kill()


def checks(stats: Path) -> list[str]:
    """Return what HAProxy last found of each server."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(stats))
        client.sendall(b"show stat\n")
        with client.makefile() as lines:
            rows = [line.split(",") for line in lines if line.strip()]
    status = rows[0].index("check_status")
    return [row[status] for row in rows[1:] if row[1] == "gateway"]


@pytest.mark.parametrize("form", FORMS)
def test_haproxy_names_the_client_and_finds_the_gateway_well(
    form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        haproxy()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with (
        EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker,
        RunningGateway(broker.bootstrap_servers, listen_host=GATEWAY, proxy_protocol_from=("127.0.0.1",)) as gateway,
        balanced(gateway, FORMS[form], tmp_path) as stats,
    ):
        with socket.create_connection(("127.0.0.1", gateway.node_port), 10, source_address=(CLIENT, 0)) as client:
            client.sendall(REQUEST)
            assert client.recv(100)
            links = {link.address for port in gateway.ports() for link in port.links}
            assert f"{CLIENT}:{client.getsockname()[1]}" in links
        with sync.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", 2)
        with sync.Consumer("t", bootstrap_servers=gateway.bootstrap_servers, group_id="g") as consumer:
            while len(consumer.assignment()) < 2:
                consumer.poll(timeout_ms=100)
        eventually(lambda: set(checks(stats)), {"L4OK"})
        assert not sum(node.without_header for node in gateway.server.ports.counters.nodes.values())
    assert "PROXY" not in caplog.text
