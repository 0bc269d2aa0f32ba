"""A gateway before an Apache Kafka with an authorizer: the rights that its guide names, and which user brokers see.

Kafka's `StandardAuthorizer` refuses what no ACL allows. The rights here are those of the table in
`docs/guide/gateway.md`.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from interop.kafka import ApacheKafka
from interop.kohort_gateway import KohortGateway
from interop.ports import free_port
from interop.waiting import eventually
from interop.wire import Wire
from tests.interop.certificates import Authority, authority, signed
from tests.interop.libraries import need
from tests.interop.topics import create_topic

from kohort.client import Consumer, Sasl
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.messages import MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.capability("kohort gateway", "rights and certificates, on a Kafka that authorizes", broker="apache"),
]

TOPIC = "orders"
ANN, CID, EDGE = (Sasl("PLAIN", name, f"{name}-secret") for name in ("ann", "cid", "edge"))
ELSEWHERE = "127.0.0.2"
"""An address of this machine from which the gateway does not connect."""

GATEWAY_RIGHTS = [
    ("BROKER", "kafka-cluster", "DESCRIBE_CONFIGS"),
    ("GROUP", "*", "DESCRIBE"),
    ("TOPIC", "*", "DESCRIBE"),
    ("TOPIC", "__kohort_group_events", "CREATE"),
    ("TOPIC", "__kohort_group_events", "WRITE"),
    ("TOPIC", "__kohort_group_orders", "READ"),
    ("TOPIC", "__kohort_group_orders", "WRITE"),
]


@dataclass
class Authorized:
    """A broker that authorizes, by listener: PLAIN behind `at_gateway`, and `SSL` that demands certificates."""

    kafka: ApacheKafka
    directory: Path
    at_gateway: str
    authority: Authority

    def allow(self, user: str, kind: str, name: str, operation: str, host: str = "*") -> None:
        """Add an ACL; a name that ends in `*` is a prefix."""
        admin = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed")
        is_prefix = name.endswith("*") and name != "*"
        pattern = admin.ResourcePatternType.PREFIXED if is_prefix else admin.ResourcePatternType.LITERAL
        binding = admin.AclBinding(
            admin.ResourceType[kind], name[:-1] if is_prefix else name, pattern, f"User:{user}", host,
            admin.AclOperation[operation], admin.AclPermissionType.ALLOW,
        )  # fmt: skip
        client = admin.AdminClient({"bootstrap.servers": self.kafka.bootstrap})
        client.create_acls([binding])[binding].result(20)

    def certificate(self, name: str) -> Path:
        """Return a certificate of this name with its key, for clients and on this host."""
        found = self.directory / f"{name}.pem"
        return found if found.exists() else signed(self.directory, name, self.authority, "IP:127.0.0.1")

    def properties(self) -> Path:
        """Return the file by which the gateway logs in."""
        path = self.directory / "edge.properties"
        path.write_text(
            f"bootstrap.servers={self.kafka.addresses['LOOKUPS']}\nsecurity.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism=PLAIN\nsasl.username={EDGE.username}\nsasl.password={EDGE.password}\n"
        )
        return path

    def gateway(self, *options: str) -> KohortGateway:
        return KohortGateway(
            self.kafka.addresses["LOOKUPS"],
            "--command-config", str(self.properties()), "--park", "*", "--events", "topic", *options,
            mode="listener", bootstrap=self.at_gateway,
        )  # fmt: skip


@pytest.fixture(scope="module")
def authorized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authorized]:
    need("librdkafka")
    directory = tmp_path_factory.mktemp("authorized")
    ours = authority(directory, "authority")
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    users = " ".join(f'user_{user.username}="{user.password}"' for user in (ANN, CID, EDGE))
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(signed(directory, "broker", ours, "IP:127.0.0.1")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ours.certificate),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    for name in ("lookups", "gateway"):
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = f"{plain} required {users};"
    at_gateway = f"127.0.0.1:{free_port()}"
    kafka = ApacheKafka(
        settings,
        heap="512m",
        wait_s=120,
        listeners=("PLAINTEXT", "LOOKUPS:SASL_PLAINTEXT", "GATEWAY:SASL_PLAINTEXT", "SSL"),
        advertised={"GATEWAY": at_gateway},
    )
    with kafka:
        create_topic(kafka.bootstrap, TOPIC, 2)
        yield Authorized(kafka, directory, at_gateway, ours)


@asynccontextmanager
async def member(
    bootstrap: str, group_id: str, sasl: Sasl | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Consumer]:
    """Become a classic member, own all partitions and commit; leave in the end. Raises KafkaError."""
    async with (
        asyncio.timeout(60),
        Consumer(
            TOPIC, bootstrap_servers=bootstrap, group_id=group_id, sasl=sasl, tls=tls, group_protocol="classic"
        ) as consumer,
    ):
        await owns(consumer, 2)
        await consumer.commit()
        yield consumer


async def owns(consumer: Consumer, partitions: int) -> None:
    while len(consumer.assignment()) != partitions:
        await consumer.poll(100)


async def joins(bootstrap: str, group_id: str, sasl: Sasl | None = None, tls: ssl.SSLContext | None = None) -> None:
    async with member(bootstrap, group_id, sasl, tls):
        pass


def kohort(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "kohort"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_gateway_without_rights_ends_with_what_it_lacks(authorized: Authorized) -> None:
    config = str(authorized.properties())
    done = kohort("gateway", "--mode", "listener", "--advertised", "127.0.0.1", "--command-config", config)
    assert done.returncode == 1
    assert "does not let this user see its listeners: allow DescribeConfigs on the cluster" in done.stderr


def test_the_rights_of_the_guide_are_enough(authorized: Authorized) -> None:
    for right in GATEWAY_RIGHTS:
        authorized.allow("edge", *right)
    for kind, name, operation in [("TOPIC", TOPIC, "READ"), ("GROUP", "billing-*", "READ")]:
        authorized.allow("ann", kind, name, operation)

    async def is_drained(bootstrap: str) -> None:
        async with member(bootstrap, "billing-1", ANN) as consumer:
            words = (
                "groups",
                "drain",
                "billing-1",
                "127.0.0.1",
                "--force",
                "--yes",
                "--bootstrap-server",
                authorized.kafka.bootstrap,
            )
            ordered = await asyncio.to_thread(kohort, *words)
            assert ordered.returncode == 0, ordered.stderr
            await owns(consumer, 0)

    with authorized.gateway() as gateway:
        asyncio.run(is_drained(gateway.bootstrap))

        def explained() -> str:
            done = kohort("explain", "billing-1", "--bootstrap-server", authorized.kafka.bootstrap)
            return done.stdout + done.stderr

        eventually(lambda: "joined" in explained(), True, 30)
        for word in ("WARNING", "ERROR", "AUTHORIZATION", "not authorized"):
            assert word not in gateway.child.text()


def test_what_a_client_may_not_do_it_may_not_through_a_gateway(authorized: Authorized) -> None:
    authorized.allow("ann", "TOPIC", TOPIC, "READ")
    with authorized.gateway() as gateway, pytest.raises(KafkaError) as refused:
        asyncio.run(joins(gateway.bootstrap, "payroll", ANN))
    assert refused.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def topics_seen(address: str, host: str) -> list[str]:
    """Return the topics that Cid, who comes from this address, is shown."""
    with Wire(address, source=host) as wire:
        assert wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        login = f"\0{CID.username}\0{CID.password}".encode()
        assert wire.call(SaslAuthenticateRequest(auth_bytes=login), 2).error_code == 0
        return [topic.name for topic in wire.call(MetadataRequest(topics=None), 8).topics]


def test_brokers_see_the_address_of_the_gateway(authorized: Authorized) -> None:
    authorized.allow("cid", "TOPIC", TOPIC, "DESCRIBE", host=ELSEWHERE)
    with authorized.gateway() as gateway:
        assert topics_seen(authorized.kafka.addresses["LOOKUPS"], ELSEWHERE) == [TOPIC]
        assert topics_seen(gateway.bootstrap, ELSEWHERE) == []


def test_brokers_see_the_certificate_of_the_gateway(authorized: Authorized) -> None:
    made = authorized.directory
    config = made / "mutual.toml"
    config.write_text(
        f'[listener_tls]\ncertificate = "{authorized.certificate("edge")}"\n'
        f'client_authority = "{authorized.authority.certificate}"\n'
        f'[broker_tls]\ncertificate = "{authorized.certificate("edge")}"\n'
        f'authority = "{authorized.authority.certificate}"\n'
    )
    look_ups = made / "mutual.properties"
    look_ups.write_text(
        f"security.protocol=SSL\nssl.ca.location={authorized.authority.certificate}\n"
        f"ssl.certificate.location={authorized.certificate('edge')}\n"
    )
    tls = ssl.create_default_context(cafile=authorized.authority.certificate)
    tls.load_cert_chain(authorized.certificate("ann"))
    options = ("--config", str(config), "--command-config", str(look_ups))
    with KohortGateway(authorized.kafka.addresses["SSL"], *options) as gateway:
        authorized.allow("CN=ann", "TOPIC", TOPIC, "READ")
        authorized.allow("CN=ann", "GROUP", "mutual", "READ")
        asyncio.run(joins(authorized.kafka.addresses["SSL"], "mutual", tls=tls))
        with pytest.raises(KafkaError) as refused:
            asyncio.run(joins(gateway.bootstrap, "mutual", tls=tls))
        assert refused.value.code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        authorized.allow("CN=edge", "TOPIC", TOPIC, "READ")
        authorized.allow("CN=edge", "GROUP", "mutual", "READ")
        asyncio.run(joins(gateway.bootstrap, "mutual", tls=tls))
