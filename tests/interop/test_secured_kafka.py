"""Our clients on an Apache Kafka that authenticates every client: TLS, mutual TLS, SASL PLAIN and SCRAM over TLS."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from interop.kafka import ApacheKafka
from tests.interop.certificates import authority, signed

from kohort.cli.main import main
from kohort.client import Admin, Consumer, Producer, Sasl
from kohort.client.config_file import config_from
from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.connection import Connection
from kohort.net.event_loop import new_event_loop
from kohort.net.tls import TlsFailed
from kohort.wire.messages import MetadataRequest

PATIENCE_MS = 60_000
SESSION_MS = 1_500
"""How long the listener without TLS lets a client stay authenticated (KIP-368)."""
PASSWORD = "it is = secret"
USERS = {mechanism: Sasl(mechanism, "ann=b", PASSWORD) for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")}
USERS["PLAIN"] = Sasl("PLAIN", "bob", "plainly")


class Secured(NamedTuple):
    """The broker's addresses by protocol, who signed its certificate, a client's certificate, and a stranger."""

    addresses: dict[str, str]
    trusted: Path
    client: Path
    stranger: Path

    def context(self, *, certificate: Path | None = None, trusted: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=trusted or self.trusted)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("certificates")
    ours, strangers = authority(directory, "authority"), authority(directory, "stranger")
    broker = signed(directory, "broker", ours, "IP:127.0.0.1")
    client = signed(directory, "client", ours, "DNS:client")
    stranger = signed(directory, "intruder", strangers, "DNS:client")
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    bob = USERS["PLAIN"]
    bobs = f'{plain} required user_{bob.username}="{bob.password}";'
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ours.certificate),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        # Unsigned tokens, which Kafka accepts for tests unless a validator is configured.
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f'{bearer} required unsecuredLoginStringClaim_sub="k";',
        "listener.name.sasl_ssl.plain.sasl.jaas.config": bobs,
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": bobs,
        "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{scram} required;",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{scram} required;",
    }
    formatting = [
        word
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for word in ("--add-scram", f'{mechanism}=[name="{USERS[mechanism].username}",password="{PASSWORD}"]')
    ]
    broker_process = ApacheKafka(
        settings,
        listeners=("PLAINTEXT", "SASL_SSL", "SSL", "SASL_PLAINTEXT"),
        formatting=formatting,
        heap="512m",
        wait_s=180,
    ).start()
    yield Secured(broker_process.addresses, ours.certificate, client, stranger)
    broker_process.stop()
    broker_process.remove()


async def work(bootstrap: str, name: str, tls: ssl.SSLContext, sasl: Sasl | None) -> None:
    """Create a topic, fill it, read it as a member of a group that commits, and ask how far the group is."""
    async with Admin(bootstrap, tls=tls, sasl=sasl) as admin:
        await admin.create_topic(name, 2)
        async with Producer(bootstrap, tls=tls, sasl=sasl) as producer:
            for at in range(40):
                await producer.send(name, b"%d" % at, key=b"%d" % at)
        values: set[bytes | None] = set()
        async with Consumer(
            name, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest", tls=tls, sasl=sasl
        ) as consumer:
            while len(values) < 40:
                values |= {record.value for batch in await consumer.poll(PATIENCE_MS) for record in batch}
        assert sum(entry.offset for entry in (await admin.group_offsets(name)).values()) == 40


Loop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=[asyncio.new_event_loop, new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Loop:
    """Both loops have a TLS of their own, and errors of their own."""
    factory: Loop = request.param
    return factory


def run(work: Coroutine[None, None, None], loop: Loop = asyncio.new_event_loop) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(work)


def a_name() -> str:
    return f"secured-{uuid.uuid4().hex[:8]}"


async def connect(
    bootstrap: str, tls: ssl.SSLContext | None, sasl: Sasl | None = None, *, is_final: bool = True
) -> None:
    """Connect; what is final must be raised at once, what may pass is tried for a second."""
    async with Admin(bootstrap, tls=tls, sasl=sasl, start_timeout_ms=600_000 if is_final else 1_000):
        pass


@pytest.mark.parametrize("mechanism", USERS)
def test_sasl_over_tls(secured: Secured, loop: Loop, mechanism: str) -> None:
    run(work(secured.addresses["SASL_SSL"], a_name(), secured.context(), USERS[mechanism]), loop)


def token(expires_in_s: int) -> str:
    """Make a token without a signature, as Kafka's own tests do."""
    now_s = time.time()
    parts = ({"alg": "none"}, {"sub": "ann", "iat": now_s - 60, "exp": now_s + expires_in_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def test_tokens_over_tls(secured: Secured) -> None:
    sasl = Sasl("OAUTHBEARER", token=lambda: token(600))
    run(work(secured.addresses["SASL_SSL"], a_name(), secured.context(), sasl))


def test_a_token_that_has_expired_is_refused_at_once(secured: Secured) -> None:
    with pytest.raises(KafkaError, match="refused the token") as refused:
        run(connect(secured.addresses["SASL_SSL"], secured.context(), Sasl("OAUTHBEARER", token=lambda: token(-50))))
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_clients_authenticate_again_before_the_broker_ends_their_session(secured: Secured) -> None:
    async def outlive_sessions() -> None:
        name, bootstrap, user = a_name(), secured.addresses["SASL_PLAINTEXT"], USERS["PLAIN"]
        host, port = bootstrap.split(":")
        connection = await Connection.open(host, int(port), name, sasl=user)
        async with (
            Admin(bootstrap, sasl=user) as admin,
            Producer(bootstrap, sasl=user) as producer,
            Consumer(name, bootstrap_servers=bootstrap, group_id=name, sasl=user) as consumer,
        ):
            await admin.create_topic(name, 1)
            until_s = time.monotonic() + 4 * SESSION_MS / 1000
            while time.monotonic() < until_s:
                await asyncio.gather(
                    connection.call(MetadataRequest()),
                    admin.list_topics(),
                    producer.send(name, b"value"),
                    consumer.poll(100),
                )
        assert not connection.is_closed
        connection.close()

    run(outlive_sessions())


def test_mutual_tls(secured: Secured, loop: Loop) -> None:
    run(work(secured.addresses["SSL"], a_name(), secured.context(certificate=secured.client), None), loop)


@pytest.mark.parametrize("mechanism", USERS)
def test_a_wrong_password_is_refused_at_once_and_names_the_user(secured: Secured, mechanism: str) -> None:
    user = USERS[mechanism]
    wrong = Sasl(mechanism, user.username, "wrong")
    with pytest.raises(KafkaError, match="refused user") as refused:
        run(connect(secured.addresses["SASL_SSL"], secured.context(), wrong))
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert user.username in refused.value.text
    assert "wrong" not in refused.value.text


def test_a_mechanism_that_the_broker_does_not_offer_names_those_that_it_does(secured: Secured) -> None:
    # The listener for mutual TLS has no SASL at all.
    with pytest.raises(KafkaError, match=r"SASL|closed") as refused:
        run(connect(secured.addresses["SSL"], secured.context(certificate=secured.client), USERS["SCRAM-SHA-256"]))
    assert refused.value.code in (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE)


def test_a_certificate_of_an_unknown_authority_is_not_trusted(secured: Secured, loop: Loop) -> None:
    with pytest.raises(TlsFailed, match=r"no authority that this client knows .*cafile="):
        run(connect(secured.addresses["SASL_SSL"], ssl.create_default_context(), USERS["PLAIN"]), loop)


def test_a_certificate_of_another_host_is_not_trusted(secured: Secured, loop: Loop) -> None:
    port = secured.addresses["SASL_SSL"].rpartition(":")[2]
    with pytest.raises(TlsFailed, match=r"certificate is for another host .*'localhost'"):
        run(connect(f"localhost:{port}", secured.context(), USERS["PLAIN"]), loop)


@pytest.mark.parametrize("has_certificate", [False, True], ids=["no certificate", "a stranger's certificate"])
def test_a_refused_client_certificate_is_named_in_the_error(
    secured: Secured, loop: Loop, has_certificate: bool
) -> None:
    context = secured.context(certificate=secured.stranger if has_certificate else None)
    with pytest.raises(TlsFailed, match=r"refused this client's certificate .*load_cert_chain"):
        run(connect(secured.addresses["SSL"], context), loop)


def test_tls_to_a_plain_listener_says_what_it_may_be(secured: Secured, loop: Loop) -> None:
    with pytest.raises(KafkaError, match="a listener without TLS"):
        run(connect(secured.addresses["PLAINTEXT"], secured.context(), is_final=False), loop)


def test_a_client_without_tls_gets_an_error_that_names_tls(secured: Secured, loop: Loop) -> None:
    with pytest.raises(KafkaError, match=r"a listener with TLS|expects TLS"):
        run(connect(secured.addresses["SASL_SSL"], None, is_final=False), loop)


def test_a_client_without_credentials_gets_an_error_that_none_were_given(secured: Secured, loop: Loop) -> None:
    with pytest.raises(KafkaError, match="gave no SASL credentials"):
        run(connect(secured.addresses["SASL_SSL"], secured.context(), is_final=False), loop)


def properties(secured: Secured, path: Path, user: Sasl) -> Path:
    path.write_text(
        f"bootstrap.servers={secured.addresses['SASL_SSL']}\nsecurity.protocol=SASL_SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={secured.trusted}\nsasl.mechanism={user.mechanism}\n"
        f"sasl.username={user.username}\nsasl.password=${{env:KOHORT_TEST_PASSWORD}}\n"
    )
    return path


def test_a_properties_file_authenticates_programs(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = USERS["SCRAM-SHA-512"]
    monkeypatch.setenv("KOHORT_TEST_PASSWORD", user.password)
    found = config_from(properties(secured, tmp_path / "client.properties", user))
    run(work(found["bootstrap_servers"], a_name(), found["tls"], found["sasl"]))


def test_a_properties_file_authenticates_the_command_line(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    user = USERS["SCRAM-SHA-256"]
    monkeypatch.setenv("KOHORT_TEST_PASSWORD", user.password)
    monkeypatch.delenv("KOHORT_BOOTSTRAP", raising=False)
    file = str(properties(secured, tmp_path / "client.properties", user))
    name = a_name()
    assert main(["topics", "create", name, "--partitions", "1", "--command-config", file]) == 0
    monkeypatch.setenv("KOHORT_COMMAND_CONFIG", file)
    assert main(["groups", "list"]) == 0
    (tmp_path / "lines").write_text("one\ntwo\n")
    with (tmp_path / "lines").open() as lines, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", lines)
        assert main(["produce", name]) == 0
    capfd.readouterr()
    assert main(["consume", name, "--from-beginning", "--max", "2"]) == 0
    assert capfd.readouterr().out == "one\ntwo\n"
    monkeypatch.setenv("KOHORT_TEST_PASSWORD", "wrong")
    assert main(["topics", "list"]) == 1
    assert "refused user 'ann=b'" in capfd.readouterr().err
