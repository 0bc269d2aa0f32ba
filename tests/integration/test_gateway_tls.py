"""TLS on both sides of a gateway: names of nodes (SNI), clients' certificates, certificates that are renewed."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from interop.unavailable import Unavailable
from tests.integration.running_gateway import RunningGateway
from tests.interop.certificates import authority, signed

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin
from kohort.gateway.gateway_settings import BrokerTls, ListenerTls
from kohort.wire.frames import decode_response, encode_request
from kohort.wire.messages import MetadataRequest, MetadataResponse

NAMES = "broker-$(nodeId).kafka.test"


class Files(NamedTuple):
    """PEM files: who signs, the gateway's certificate with another to follow it, a client's."""

    authority: Path
    gateway: Path
    renewed: Path
    client: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("certificates")
    try:
        ours = authority(directory, "authority")
        names = "IP:127.0.0.1,DNS:kafka.test,DNS:*.kafka.test"
        gateway, renewed = (signed(directory, name, ours, names) for name in ("gateway", "renewed"))
        return Files(ours.certificate, gateway, renewed, signed(directory, "client", ours, "DNS:client"))
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker


def trusting(files: Files, *, client: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.authority)
    if client is not None:
        context.load_cert_chain(client)
    return context


def metadata(port: int, context: ssl.SSLContext, name: str) -> MetadataResponse:
    """Return what a client sees that connects by a host name."""
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        context.wrap_socket(plain, server_hostname=name) as client,
    ):
        client.sendall(encode_request(MetadataRequest(topics=[]), 12, 1, "test"))
        received = b""
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            chunk = client.recv(65536)
            if not chunk:
                raise ConnectionError("closed")
            received += chunk
        return decode_response(MetadataResponse, 12, received[4:])[1]


def test_a_client_reaches_each_node_by_its_host_name(
    broker: EmbeddedBroker, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    port = RunningGateway(broker.bootstrap_servers).port
    with RunningGateway(
        broker.bootstrap_servers,
        advertised=(f"kafka.test:{port}",),
        node_ports={},
        node_names=NAMES,
        listener_tls=ListenerTls(certificate=str(files.gateway)),
    ):
        for name in ("kafka.test", "broker-1.kafka.test", "BROKER-1.kafka.test"):
            seen = metadata(port, trusting(files), name)
            assert [(each.host, each.port) for each in seen.brokers] == [("broker-1.kafka.test", port)]
        for name in ("broker-2.kafka.test", "elsewhere.kafka.test"):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                metadata(port, trusting(files), name)
            assert f"connects to {name}, which is the name of no node" in caplog.text


def test_a_client_that_is_no_tls_client_is_closed(broker: EmbeddedBroker, files: Files) -> None:
    tls = ListenerTls(certificate=str(files.gateway))
    with (
        RunningGateway(broker.bootstrap_servers, listener_tls=tls) as gateway,
        socket.create_connection(("127.0.0.1", gateway.port), 10) as plain,
    ):
        plain.sendall(encode_request(MetadataRequest(topics=[]), 12, 1, "test"))
        received = b""
        while chunk := plain.recv(65536):
            received += chunk
        assert len(received) < 20, "an alert at most"


def test_both_sides_speak_tls_and_the_broker_sees_the_gateway_s_certificate(
    broker: EmbeddedBroker, files: Files
) -> None:
    listener = ListenerTls(certificate=str(files.gateway), client_authority=str(files.authority))
    with RunningGateway(broker.bootstrap_servers, listener_tls=listener) as inner:
        own = {"authority": str(files.authority), "certificate": str(files.client)}
        with RunningGateway(
            inner.bootstrap_servers,
            listener_tls=ListenerTls(certificate=str(files.gateway)),
            broker_tls=BrokerTls(**own),
            security={"tls": trusting(files, client=files.client)},
        ) as outer:

            async def names() -> list[str]:
                async with Admin(outer.bootstrap_servers, tls=trusting(files)) as admin:
                    await admin.create_topic("through-both", 1)
                    return [topic.name for topic in await admin.list_topics()]

            assert "through-both" in asyncio.run(names())
        with pytest.raises((ssl.SSLError, ConnectionError)):
            metadata(inner.port, trusting(files), "kafka.test")


def test_a_broker_whose_certificate_is_not_trusted_is_not_connected(
    broker: EmbeddedBroker, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    with RunningGateway(broker.bootstrap_servers, listener_tls=ListenerTls(certificate=str(files.gateway))) as inner:
        with (
            RunningGateway(inner.bootstrap_servers, broker_tls=BrokerTls(), security={"tls": trusting(files)}) as outer,
            socket.create_connection(("127.0.0.1", outer.port), 10) as client,
            pytest.raises(ConnectionResetError),
        ):
            client.recv(1)
        assert "was not trusted: no authority that this client knows signed its certificate" in caplog.text


def test_a_certificate_is_renewed_while_connections_stay(broker: EmbeddedBroker, files: Files, tmp_path: Path) -> None:
    certificate = tmp_path / "gateway.pem"
    shutil.copy(files.gateway, certificate)
    tls = ListenerTls(certificate=str(certificate))
    with RunningGateway(broker.bootstrap_servers, listener_tls=tls) as gateway:

        def shown() -> str:
            with (
                socket.create_connection(("127.0.0.1", gateway.port), 10) as plain,
                trusting(files).wrap_socket(plain, server_hostname="kafka.test") as client,
            ):
                found = client.getpeercert()
                assert found is not None
                return str(dict(pair[0] for pair in found["subject"])["commonName"])  # type: ignore[misc,arg-type]

        with (
            socket.create_connection(("127.0.0.1", gateway.port), 10) as plain,
            trusting(files).wrap_socket(plain, server_hostname="kafka.test") as before,
        ):
            assert shown() == "gateway"
            shutil.copy(files.renewed, certificate)
            assert shown() == "renewed"
            before.sendall(encode_request(MetadataRequest(topics=[]), 12, 1, "test"))
            assert before.recv(4)


def test_an_authority_that_is_taken_out_of_its_file_is_trusted_no_longer(
    broker: EmbeddedBroker, files: Files, tmp_path: Path
) -> None:
    clients = tmp_path / "clients.pem"
    shutil.copy(files.authority, clients)
    tls = ListenerTls(certificate=str(files.gateway), client_authority=str(clients))
    with RunningGateway(broker.bootstrap_servers, listener_tls=tls) as gateway:
        own = trusting(files, client=files.client)
        assert metadata(gateway.port, own, "kafka.test").brokers
        shutil.copy(authority(tmp_path, "another").certificate, clients)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            metadata(gateway.port, own, "kafka.test")
