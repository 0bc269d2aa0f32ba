"""Clients of others that log in to a broker and list its topics: right credentials in, topics out."""

from __future__ import annotations

import contextlib
import json
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from interop import go_program, jars
from kohort.broker.embedded import EmbeddedBroker

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 90
LIFETIME_MS = 2_000
"""How long a login is valid at a broker whose clients are to log in again (KIP-368)."""

WAYS: dict[str, dict[str, Any]] = {
    "TLS": {"security_protocol": "SSL"},
    "mutual TLS": {"security_protocol": "SSL", "ssl_client_auth": "required"},
    "PLAIN": {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
    "SCRAM-SHA-256": {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256"},
    "SCRAM-SHA-512": {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"},
    "OAUTHBEARER": {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
}
"""How a listener is locked, by the name of its column: the arguments of an `EmbeddedBroker`."""


class Refused(Exception):
    """The client was not let in, or did not trust the broker."""


class Credentials(NamedTuple):
    """What a client shows, and which authority it trusts."""

    address: str
    protocol: str
    mechanism: str | None
    user: str
    password: str
    token: str | None
    authority: Path
    certificate: Path | None

    @classmethod
    def right(cls, broker: EmbeddedBroker) -> Credentials:
        """Return those that a broker accepts."""
        own = broker.security
        (user, password), *_ = own.users.items()
        assert own.ca_file is not None, "every listener here has TLS"
        token = own.token() if own.mechanism == "OAUTHBEARER" else None
        address = broker.bootstrap_servers
        return cls(address, own.protocol, own.mechanism, user, password, token, own.ca_file, own.client_certificate)

    def wrong(self, broker: EmbeddedBroker, stranger: EmbeddedBroker) -> Credentials:
        """Return those of which the last is wrong: password, token, certificate, or the authority that is trusted."""
        if self.token is not None:
            return self._replace(token=broker.security.token(exp=1))
        if self.mechanism is not None:
            return self._replace(password="wrong")
        if self.certificate is not None:
            return self._replace(certificate=stranger.security.client_certificate)
        authority = stranger.security.ca_file
        assert authority is not None, "a stranger has an authority of its own"
        return self._replace(authority=authority)


def _kohort(given: Credentials, _: Path) -> set[str]:
    from kohort.model.errors import KafkaError
    from kohort.net.sasl import Sasl
    from kohort.sync import Admin

    context = ssl.create_default_context(cafile=given.authority)
    if given.certificate is not None:
        context.load_cert_chain(given.certificate)
    sasl = None
    if given.token is not None:
        token = given.token
        sasl = Sasl("OAUTHBEARER", token=lambda: token)
    elif given.mechanism is not None:
        sasl = Sasl(given.mechanism, given.user, given.password)
    try:
        with Admin(given.address, tls=context, sasl=sasl, start_timeout_ms=20_000) as admin:
            return {topic.name for topic in admin.list_topics()}
    except KafkaError as error:
        raise Refused(str(error)) from error


def _librdkafka_settings(given: Credentials) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": given.address,
        "security.protocol": given.protocol,
        "ssl.ca.location": str(given.authority),
    }
    if given.certificate is not None:
        settings |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), str(given.certificate))
    if given.mechanism is not None:
        settings["sasl.mechanism"] = given.mechanism
    if given.token is not None:
        settings["oauth_cb"] = lambda _: (given.token, time.time() + 3600)
    elif given.mechanism is not None:
        settings |= {"sasl.username": given.user, "sasl.password": given.password}
    return settings


def _librdkafka(given: Credentials, _: Path) -> set[str]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors: list[str] = []
    settings = _librdkafka_settings(given)
    settings["error_cb"] = lambda error: errors.append(f"{error.name()} {error.str()}")
    client = AdminClient(settings)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        client.poll(0.1)
        with contextlib.suppress(KafkaException):
            return set(client.list_topics(timeout=5).topics)
        client.poll(0)
        # In TLS 1.3 the refusal of a certificate comes as an alert after the handshake.
        if any(sign in error for error in errors for sign in ("_AUTHENTICATION", "_SSL", "SSL alert")):
            raise Refused(errors[-1])
    raise AssertionError(f"librdkafka neither got in nor was refused: {errors[-3:]}")


def _librdkafka_again(given: Credentials, _: Path, times: int) -> int:
    from confluent_kafka.admin import AdminClient

    connects: list[int] = []

    def take(statistics: str) -> None:
        connects.append(sum(each["connects"] for each in json.loads(statistics)["brokers"].values()))

    client = AdminClient(_librdkafka_settings(given) | {"stats_cb": take, "statistics.interval.ms": LIFETIME_MS})
    client.list_topics(timeout=PATIENCE_S)
    while len(connects) < times + 2:
        client.poll(0.1)
        client.list_topics(timeout=PATIENCE_S)
    return connects[-1] - connects[0]


def _kafka_python(given: Credentials, _: Path) -> set[str]:
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    class Provider:
        def token(self) -> str | None:
            return given.token

        def extensions(self) -> dict[str, str]:
            return {}

    settings: dict[str, Any] = {"security_protocol": given.protocol, "ssl_cafile": str(given.authority)}
    if given.certificate is not None:
        settings |= {"ssl_certfile": str(given.certificate), "ssl_keyfile": str(given.certificate)}
    if given.mechanism is not None:
        settings["sasl_mechanism"] = given.mechanism
    if given.token is not None:
        settings["sasl_oauth_token_provider"] = _token_provider(Provider)
    elif given.mechanism is not None:
        settings |= {"sasl_plain_username": given.user, "sasl_plain_password": given.password}
    try:
        consumer = KafkaConsumer(bootstrap_servers=given.address, bootstrap_timeout_ms=10_000, **settings)
        try:
            return set(consumer.topics())
        finally:
            consumer.close()
    except (KafkaError, OSError) as error:
        raise Refused(repr(error)) from error


def _token_provider(cls: type) -> object:
    """Return a provider that kafka-python takes: an instance of a class of its own."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    made: object = type("Provider", (cls, AbstractTokenProvider), {})()
    return made


def _java(given: Credentials, directory: Path) -> set[str]:
    return _topics_in(_output_of(_java_command(given, directory, {})))


def _java_again(given: Credentials, directory: Path, times: int) -> int:
    lines = _output_of(_java_command(given, directory, {"logins.again": str(times)}))
    return next(int(line.removeprefix("reconnected: ")) for line in lines if line.startswith("reconnected: "))


def _java_command(given: Credentials, directory: Path, more: Mapping[str, str]) -> list[str]:
    module = "org.apache.kafka.common.security"
    modules = {
        "PLAIN": f"{module}.plain.PlainLoginModule",
        "OAUTHBEARER": f"{module}.oauthbearer.OAuthBearerLoginModule",
    }
    properties = {
        "bootstrap.servers": given.address,
        "security.protocol": given.protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(given.authority),
        "request.timeout.ms": "15000",
        "default.api.timeout.ms": "20000",
    }
    if given.certificate is not None:
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(given.certificate)}
    if given.mechanism is not None:
        login = modules.get(given.mechanism, f"{module}.scram.ScramLoginModule")
        user = "" if given.token is not None else f' username="{given.user}" password="{given.password}"'
        properties |= {"sasl.mechanism": given.mechanism, "sasl.jaas.config": f"{login} required{user};"}
    if given.token is not None:
        properties["token"] = given.token
    return jars.command("LogIn", _written(directory, {**properties, **more}), classes=jars.compiled("LogIn"))


def _kgo(given: Credentials, directory: Path) -> set[str]:
    program = go_program.built(ROOT / "interop" / "go" / "login")
    properties = {
        "address": given.address,
        "security.protocol": given.protocol,
        "sasl.mechanism": given.mechanism or "",
        "username": given.user,
        "password": given.password,
        "token": given.token or "",
        "ca": str(given.authority),
        "certificate": str(given.certificate or ""),
    }
    return _topics_in(_output_of([str(program), _written(directory, properties)]))


def _written(directory: Path, properties: Mapping[str, str]) -> str:
    path = directory / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return str(path)


def _output_of(command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    lines = done.stdout.splitlines()
    if refused := [line for line in lines if line.startswith("refused: ")]:
        raise Refused(refused[0])
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return lines


def _topics_in(lines: list[str]) -> set[str]:
    return {line.removeprefix("topic: ") for line in lines if line.startswith("topic: ")}


CLIENTS: dict[str, Callable[[Credentials, Path], set[str]]] = {
    "kohort": _kohort,
    "java": _java,
    "librdkafka": _librdkafka,
    "kafka_python": _kafka_python,
    "kgo": _kgo,
}
"""Functions that log in and return the names of topics, by client. They raise `Refused`."""

AGAIN: dict[str, Callable[[Credentials, Path, int], int]] = {"java": _java_again, "librdkafka": _librdkafka_again}
"""Functions that stay until the time for so many more logins has come, and return how often they connected again."""
