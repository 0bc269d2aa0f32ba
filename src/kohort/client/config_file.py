"""Connection and security settings from a file of properties, as other Kafka clients and tools read them.

Java's names and librdkafka's are both understood, as far as they concern addresses, encryption and authentication;
other settings are left to the program. `${env:NAME}` stands for an environment variable. What cannot be honoured
(a JKS store, another mechanism) is refused with what to do instead: never is less checked than the file demands.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict, get_args

from kohort.model.setting import BOOLEAN, PASSWORD, STRING, Setting, attributes
from kohort.net.sasl import Sasl
from kohort.net.settings_files import read_properties
from kohort.wire.jaas import jaas_options

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class SecuritySettings(TypedDict, total=False):
    """Encryption and authentication in the names of Java and librdkafka, instead of `tls` and `sasl`."""

    security_protocol: SecurityProtocol | None
    sasl_mechanism: SaslMechanism | None
    sasl_mechanisms: SaslMechanism | None
    sasl_username: str | None
    sasl_password: str | None
    sasl_jaas_config: str | None
    ssl_ca_location: str | os.PathLike[str] | None
    ssl_certificate_location: str | os.PathLike[str] | None
    ssl_key_location: str | os.PathLike[str] | None
    ssl_key_password: str | None
    ssl_keystore_location: str | os.PathLike[str] | None
    ssl_keystore_type: str | None
    ssl_truststore_location: str | os.PathLike[str] | None
    ssl_truststore_type: str | None
    ssl_endpoint_identification_algorithm: str | None
    enable_ssl_certificate_verification: bool | None


_PROTOCOLS = get_args(SecurityProtocol)
_PEM = "A PEM file"


# fmt: off
class _Security:
    """How a client reaches its cluster, in the names of properties."""

    bootstrap_servers = Setting[str | None](STRING, None, "Brokers to begin with: host:port, several with commas.")
    security_protocol = Setting[str | None](STRING, None, "Encryption and authentication; PLAINTEXT if not set.",
        choices=_PROTOCOLS)
    sasl_mechanism = Setting[str | None](STRING, None, "How the client logs in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512.")
    sasl_mechanisms = Setting[str | None](STRING, None, "librdkafka's name of sasl.mechanism.")
    sasl_username = Setting[str | None](STRING, None, "The name of the user.")
    sasl_password = Setting[str | None](PASSWORD, None, "The user's password.")
    sasl_jaas_config = Setting[str | None](PASSWORD, None, "Java's form of both: … username=\"ann\" password=\"…\";")
    ssl_ca_location = Setting[str | None](STRING, None,
        f"{_PEM} with the authorities that sign brokers' certificates; the system's if not set.")
    ssl_certificate_location = Setting[str | None](STRING, None, f"{_PEM} with the client's own certificate.")
    ssl_key_location = Setting[str | None](STRING, None, f"{_PEM} with its key, where it is not in the same file.")
    ssl_key_password = Setting[str | None](PASSWORD, None, "The password of the key.")
    ssl_keystore_location = Setting[str | None](STRING, None, "Java's name of ssl.certificate.location.")
    ssl_keystore_type = Setting[str | None](STRING, None, "PEM, where ssl.keystore.location is set.")
    ssl_truststore_location = Setting[str | None](STRING, None, "Java's name of ssl.ca.location.")
    ssl_truststore_type = Setting[str | None](STRING, None, "PEM, where ssl.truststore.location is set.")
    ssl_endpoint_identification_algorithm = Setting[str | None](STRING, None,
        "https compares the broker's name with its certificate, which is the default; empty or none does not.")
    enable_ssl_certificate_verification = Setting[bool | None](BOOLEAN, None,
        "Whether the broker's certificate is checked; true if not set.")
# fmt: on


SECURITY = attributes("a connection", _Security)
_FROM_JKS = "turn it into PEM (openssl pkcs12 -in STORE.p12 -nodes -out STORE.pem; keytool -importkeystore for a JKS)"


class ConnectionArguments(TypedDict, total=False):
    """Arguments of `Consumer`, `Producer` and `Admin`: give them as `**config_from(…)`."""

    bootstrap_servers: str
    tls: ssl.SSLContext
    sasl: Sasl


def config_from(path: str | os.PathLike[str]) -> ConnectionArguments:
    """Return the connection arguments in a file of properties. Raises ValueError with the reason, OSError."""
    try:
        return connection_arguments(read_properties(Path(path).read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def certificate_in(properties: Mapping[str, str]) -> str | None:
    """Return the file of the client's own certificate."""
    return properties.get("ssl.certificate.location") or properties.get("ssl.keystore.location")


def connection_arguments(properties: Mapping[str, str]) -> ConnectionArguments:
    """Return the arguments that properties stand for. Raises ValueError where they cannot be honoured, OSError."""
    _refuse_other_stores(properties)
    for name in sorted(properties):
        if name.startswith(("ssl.", "sasl.", "security.")):
            SECURITY.find(name)
    protocol = _Security.security_protocol.parse(properties.get("security.protocol", "PLAINTEXT"))
    _refuse_unused(properties, protocol)
    found: ConnectionArguments = {}
    if "bootstrap.servers" in properties:
        found["bootstrap_servers"] = properties["bootstrap.servers"]
    if protocol.endswith("SSL"):
        found["tls"] = _context(properties)
    if protocol.startswith("SASL"):
        found["sasl"] = _credentials(properties)
    return found


def _refuse_other_stores(properties: Mapping[str, str]) -> None:
    for kind in ("ssl.truststore", "ssl.keystore"):
        if f"{kind}.location" in properties and properties.get(f"{kind}.type", "JKS").upper() != "PEM":
            raise ValueError(f"{kind}.location is no PEM file by {kind}.type: {_FROM_JKS} and set {kind}.type=PEM")


def _refuse_unused(properties: Mapping[str, str], protocol: str) -> None:
    """Refuse what the protocol does not use: a password or an authority that is given is meant to protect."""
    for name in sorted(properties.keys() & SECURITY):
        for prefix, kind in (("sasl.", "SASL"), ("ssl.", "SSL"), ("enable.ssl.", "SSL")):
            if name.startswith(prefix) and kind not in protocol:
                given = "is" if "security.protocol" in properties else "is not given, which stands for"
                raise ValueError(
                    f"security.protocol {given} {protocol}, which makes no use of {name}:"
                    f" give security.protocol={_also(protocol, kind)}, or leave {name} out"
                )


def _also(protocol: str, kind: str) -> str:
    if protocol == "PLAINTEXT":
        return " or ".join(each for each in _PROTOCOLS if kind in each)
    return "SASL_SSL"


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    authority = properties.get("ssl.ca.location") or properties.get("ssl.truststore.location")
    context = ssl.create_default_context(cafile=_file(authority, "authority") if authority else None)
    if certificate := certificate_in(properties):
        key = properties.get("ssl.key.location")
        password = properties.get("ssl.key.password", "")
        try:
            # A function, so that OpenSSL never asks the terminal.
            context.load_cert_chain(
                _file(certificate, "certificate"), _file(key, "key") if key else None, lambda: password
            )
        except ssl.SSLError as cause:
            raise ValueError(f"{key or certificate} gives no certificate and key ({cause.reason or cause})") from None
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() in ("", "none"):
        context.check_hostname = False
    if not _Security.enable_ssl_certificate_verification.parse(
        properties.get("enable.ssl.certificate.verification", "true")
    ):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _file(path: str, what: str) -> str:
    if not Path(path).is_file():
        raise ValueError(f"the {what}'s file {path} does not exist")
    return path


def _credentials(properties: Mapping[str, str]) -> Sasl:
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")
    if mechanism is None:
        raise ValueError("security.protocol is SASL, and there is no sasl.mechanism: PLAIN, SCRAM-SHA-256, …")
    in_jaas = dict(jaas_options(properties.get("sasl.jaas.config", "")))
    username = properties.get("sasl.username", in_jaas.get("username"))
    password = properties.get("sasl.password", in_jaas.get("password"))
    if username is None or password is None:
        raise ValueError("SASL needs sasl.username and sasl.password, or a sasl.jaas.config with both")
    return Sasl(mechanism, username, password)
