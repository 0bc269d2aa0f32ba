"""A properties file in Java's or librdkafka's names becomes what clients take; what cannot be honoured is refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kohort.client.config_file import config_from, connection_arguments
from kohort.net.sasl import Sasl
from kohort.net.settings_files import read_properties

JAVA = """
# as Kafka's tools take it
bootstrap.servers = one:9093,two:9093
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="ann" \\
    password="it's \\"quoted\\"=;";
client.id=theirs
"""


def test_java_s_names_with_a_jaas_entry_over_several_lines() -> None:
    found = connection_arguments(read_properties(JAVA.replace("\\\\", "\\")))
    assert found == {
        "bootstrap_servers": "one:9093,two:9093",
        "sasl": Sasl("SCRAM-SHA-512", "ann", """it's "quoted"=;"""),
    }


def test_librdkafka_s_names() -> None:
    given = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": "secret",
    }
    assert connection_arguments(given) == {"sasl": Sasl("PLAIN", "ann", "secret")}


def test_a_password_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "from outside")
    assert read_properties("sasl.password=${env:BROKER_PASSWORD}") == {"sasl.password": "from outside"}
    monkeypatch.delenv("BROKER_PASSWORD")
    with pytest.raises(ValueError, match="BROKER_PASSWORD is not set"):
        read_properties("sasl.password=${env:BROKER_PASSWORD}")


def test_tls_checks_authority_and_host_unless_the_file_turns_it_off() -> None:
    strict = connection_arguments({"security.protocol": "SSL"})["tls"]
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    unnamed = connection_arguments({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""})["tls"]
    assert (unnamed.verify_mode, unnamed.check_hostname) == (ssl.CERT_REQUIRED, False)
    blind = connection_arguments({"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"})["tls"]
    assert (blind.verify_mode, blind.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"security.protocol": "TLS"}, "security.protocol='TLS': expected PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "there is no sasl.mechanism"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "needs sasl.username and sasl.password"),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "GSSAPI",
                "sasl.username": "",
                "sasl.password": "",
            },
            "'GSSAPI' is not one of",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/t.jks"}, "set ssl.truststore.type=PEM"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/t.jks", "ssl.truststore.password": "pw"},
            "set ssl.truststore.type=PEM",
        ),
        ({"sasl.username": "ann"}, "security.protocol is not given, which stands for PLAINTEXT"),
        ({"ssl.ca.location": "/ca.pem"}, "give security.protocol=SSL or SASL_SSL, or leave ssl.ca.location out"),
        ({"security.protocol": "SSL", "sasl.password": "pw"}, "give security.protocol=SASL_SSL"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "enable.ssl.certificate.verification": "true"},
            "makes no use of enable.ssl.certificate.verification",
        ),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere.pem"}, "/nowhere.pem does not exist"),
        ({"ssl.engine.factory.class": "x"}, "no setting 'ssl.engine.factory.class'"),
    ],
)
def test_what_cannot_be_honoured_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        connection_arguments(given)


def test_a_refusal_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol\n")
    with pytest.raises(ValueError, match=r"client\.properties: 'security\.protocol'… is no line"):
        config_from(file)
