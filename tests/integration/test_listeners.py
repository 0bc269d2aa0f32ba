"""A broker with several listeners, some with TLS: addresses, certificates and their renewal, unfinished handshakes."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from interop.unavailable import Unavailable
from tests.interop.certificates import authority, signed

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Consumer, Producer
from kohort.net.connection import Connection
from kohort.net.tls import TlsFailed
from kohort.node.configuration.listeners import address_text
from kohort.wire.messages import FindCoordinatorRequest, MetadataRequest

HANDSHAKE_MS = 150


class Files(NamedTuple):
    """PEM files: who signs, the broker's certificate with another to follow it, a client's, and a stranger's."""

    authority: Path
    broker: Path
    renewed: Path
    client: Path
    stranger: Path

    def context(self, client: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority)
        if client is not None:
            context.load_cert_chain(client)
        return context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("certificates")
    try:
        ours, strangers = authority(directory, "authority"), authority(directory, "strangers")
        broker, renewed = (signed(directory, name, ours, "IP:127.0.0.1") for name in ("broker", "renewed"))
        client = signed(directory, "client", ours, "DNS:client")
        return Files(ours.certificate, broker, renewed, client, signed(directory, "stranger", strangers, "DNS:client"))
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def broker(files: Files, tmp_path: Path) -> Iterator[EmbeddedBroker]:
    keystore = tmp_path / "keystore.pem"
    shutil.copy(files.broker, keystore)
    with EmbeddedBroker(
        tmp_path / "data",
        listeners="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,MUTUAL://127.0.0.1:0",
        listener_security_protocol_map="MUTUAL:SSL",
        ssl_keystore_location=keystore,
        ssl_truststore_location=files.authority,
        group_initial_rebalance_delay_ms=0,
        kohort_authentication_timeout_ms=HANDSHAKE_MS,
        **{"listener.name.mutual.ssl.client.auth": "required"},
    ) as broker:
        yield broker


def addresses(broker: EmbeddedBroker) -> dict[str, str]:
    return {listener.name: address_text(listener.address) for listener in broker.broker.listeners}


async def advertised(address: str, context: ssl.SSLContext | None) -> set[str]:
    """Return the addresses that a listener advertises."""
    host, _, port = address.rpartition(":")
    connection = await Connection.open(host, int(port), "c", tls=context)
    brokers = (await connection.call(MetadataRequest(topics=[]))).brokers
    coordinators = (await connection.call(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators
    connection.close()
    return {f"{each.host}:{each.port}" for each in (*brokers, *coordinators)}


async def work(address: str, context: ssl.SSLContext) -> None:
    """Fill a topic over TLS, with records of more than a TLS record, and read it as a member of a group."""
    big = os.urandom(300_000)
    async with Admin(address, tls=context) as admin, Producer(address, tls=context) as producer:
        await admin.create_topic("orders", 2)
        for at in range(20):
            await producer.send("orders", big, key=b"%d" % at)
        async with Consumer(
            "orders", bootstrap_servers=address, group_id="g", auto_offset_reset="earliest", tls=context
        ) as consumer:
            values: list[bytes | None] = []
            while len(values) < 20:
                values += [record.value for batch in await consumer.poll(30_000) for record in batch]
    assert set(values) == {big}


def test_each_listener_advertises_itself_and_serves_groups(broker: EmbeddedBroker, files: Files) -> None:
    own = addresses(broker)
    contexts = {"PLAINTEXT": None, "SSL": files.context(), "MUTUAL": files.context(files.client)}
    for name, context in contexts.items():
        assert asyncio.run(advertised(own[name], context)) == {own[name]}
    asyncio.run(work(own["SSL"], files.context()))


def test_listeners_keep_their_ports_over_a_restart(broker: EmbeddedBroker) -> None:
    before = addresses(broker)
    broker.kill()
    broker.start()
    assert addresses(broker) == before


@pytest.mark.parametrize("certificate", [None, "stranger"])
def test_a_client_without_a_certificate_of_the_authority_is_refused(
    broker: EmbeddedBroker, files: Files, certificate: str | None
) -> None:
    context = files.context(None if certificate is None else files.stranger)
    with pytest.raises(TlsFailed, match="refused this client's certificate"):
        asyncio.run(advertised(addresses(broker)["MUTUAL"], context))


def serial(address: str, context: ssl.SSLContext) -> str:
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        context.wrap_socket(plain, server_hostname=host) as client,
    ):
        return str((client.getpeercert() or {})["serialNumber"])


def test_a_certificate_is_renewed_without_a_restart(
    broker: EmbeddedBroker, files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    address, context, keystore = addresses(broker)["SSL"], files.context(), tmp_path / "keystore.pem"
    first = serial(address, context)
    keystore.write_text("half a file")
    assert serial(address, context) == first
    assert f"certificate {keystore} is not renewed, the old one stays" in caplog.text
    shutil.copy(files.renewed, keystore)
    assert serial(address, context) != first
    assert f"certificate {keystore} is renewed" in caplog.text


def test_a_client_that_does_not_finish_its_handshake_is_disconnected(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    host, _, port = addresses(broker)["SSL"].rpartition(":")
    for sent in (b"", b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/1.1"):
        with socket.create_connection((host, int(port)), 10) as client:
            client.sendall(sent)
            client.settimeout(30)
            while client.recv(4096):
                pass
    broker.stop()
    reasons = [message.rpartition(": ")[2] for message in caplog.messages if "no TLS with 127.0.0.1" in message]
    assert reasons == [*2 * [f"its handshake took longer than {HANDSHAKE_MS} ms"], "http request; it speaks HTTP"]


def test_stopping_ends_handshakes_under_way(broker: EmbeddedBroker) -> None:
    host, _, port = addresses(broker)["SSL"].rpartition(":")
    with socket.create_connection((host, int(port)), 10) as client:
        broker.stop()
        client.settimeout(30)
        assert client.recv(1) == b""
