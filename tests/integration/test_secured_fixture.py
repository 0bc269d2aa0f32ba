"""The fixture `kohort_broker` with TLS and each mechanism, in one line: our clients log in."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Admin, Consumer, Producer, Sasl
from kohort.client.config_file import connection_arguments
from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.connection import Connection
from kohort.net.tls import TlsFailed
from kohort.wire.messages import MetadataRequest

pytest.importorskip("cryptography")
pytest.importorskip("jwt")

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
WAYS: list[dict[str, Any]] = [
    {"security_protocol": "SSL"},
    {"security_protocol": "SSL", "ssl_client_auth": "required"},
    {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "ssl_client_auth": "required"},
    *({"security_protocol": "SASL_SSL", "sasl_mechanism": name} for name in MECHANISMS),
    *({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": name} for name in MECHANISMS),
]


async def work(settings: Any, principals: set[str], broker: EmbeddedBroker) -> None:
    async with Admin(**settings) as admin, Producer(**settings) as producer:
        await admin.create_topic("orders", 1)
        await producer.send("orders", b"value")
        async with Consumer("orders", **settings, group_id="g", auto_offset_reset="earliest") as consumer:
            while not await consumer.poll(1_000):
                pass
            node = broker.broker.node
            assert node is not None
            principals |= {str(connection.principal) for connection in node.connections}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way.values()))
def test_our_clients_log_in_with_the_settings_of_the_broker(way: dict[str, Any]) -> None:
    principals: set[str] = set()
    with EmbeddedBroker(**way, group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(work(broker.client_settings, principals, broker))
        assert principals == {"User:kohort" if len(way) > 1 else "User:ANONYMOUS"}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way.values()))
def test_javas_properties_are_those_that_our_clients_read_too(way: dict[str, Any]) -> None:
    if way.get("sasl_mechanism") == "OAUTHBEARER":
        pytest.skip("tokens come from a function")
    with EmbeddedBroker(**way, users={"ann": "it is secret"}, group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(work(connection_arguments(broker.java_properties), set(), broker))


@pytest.mark.kohort_settings(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", users={"ann": "secret"})
def test_the_marker_secures_the_broker(kohort_broker: EmbeddedBroker) -> None:
    async def scenario() -> None:
        settings = kohort_broker.client_settings
        async with Admin(**settings) as admin:
            await admin.list_topics()
        with pytest.raises(KafkaError) as refused:
            async with Admin(**{**settings, "sasl": Sasl("SCRAM-SHA-512", "ann", "wrong")}):
                pass
        assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        with pytest.raises(TlsFailed, match="no authority that this client knows"):
            async with Admin(**{**settings, "tls": ssl.create_default_context()}):
                pass

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"security_protocol": "TLS"}, "is not one of PLAINTEXT, SSL"),
        ({"security_protocol": "SASL_SSL"}, "SASL_PLAINTEXT and SASL_SSL take one of PLAIN"),
        ({"security_protocol": "SSL", "sasl_mechanism": "PLAIN"}, "the others none"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "take one of PLAIN"),
        ({"security_protocol": "SSL", "listeners": "SSL://:1"}, "either listeners or security_protocol"),
        ({"sasl_mechanism": "PLAIN"}, "need security_protocol"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        EmbeddedBroker(**arguments)


def test_private_keys_are_their_owners_alone() -> None:
    broker = EmbeddedBroker(security_protocol="SSL", ssl_client_auth="required")
    certificate = broker.security.client_certificate
    assert certificate is not None
    assert Path(certificate).stat().st_mode & 0o077 == 0


def test_our_clients_log_in_again_before_their_session_ends() -> None:
    made: list[str] = []

    async def scenario(broker: EmbeddedBroker) -> None:
        def token() -> str:
            made.append(broker.security.token())
            return made[-1]

        host, port = broker.broker.address
        connection = await Connection.open(host, port, "c", sasl=Sasl("OAUTHBEARER", token=token))
        while len(made) < 4:
            await connection.call(MetadataRequest(topics=[]))
        assert not connection.is_closed
        connection.close()

    with EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", connections_max_reauth_ms=400
    ) as broker:
        asyncio.run(scenario(broker))
