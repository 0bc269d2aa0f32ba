"""A listener with TLS and a login for tests, from two words: certificates made on the fly, users, settings of clients.

`security_protocol` and `sasl_mechanism` are those of clients. The client's user is the first of `users`. Certificates
are valid for a week from yesterday on, and their keys are written for the owner's eyes only.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypedDict

from kohort.broker.json_web_tokens import jwks, signed_token
from kohort.model.extras import install_command
from kohort.model.setting import SettingsError
from kohort.net.sasl import Sasl
from kohort.node.configuration.broker_settings import MECHANISMS
from kohort.node.configuration.listeners import PROTOCOLS

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ImportError:  # the extra [security] is not installed
    x509 = None

_VALID = timedelta(days=7)


def new_key() -> Any:
    """Return a private key on the curve P-256. Raises SettingsError where the package is not installed."""
    if x509 is None:
        raise SettingsError(f"certificates for tests need a package: {install_command('security')}")
    return ec.generate_private_key(ec.SECP256R1())


class Authority:
    """An authority of its own, whose certificate is the file `certificate`. Raises SettingsError."""

    def __init__(self, directory: Path, name: str = "kohort test authority") -> None:
        self._directory = directory
        self._key = new_key()
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = _builder(self._name, self._name, self._key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        made = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.certificate = directory / "ca.pem"
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, hosts: Iterable[str] = ()) -> Path:
        """Make a certificate for a name and hosts, and return a file with its private key and itself (PEM)."""
        key = new_key()
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self._name, key)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if names := [_host(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        pkcs8 = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = self._directory / f"{name}.pem"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(pkcs8 + made.public_bytes(serialization.Encoding.PEM))
        return path


def _builder(subject: Any, issuer: Any, key: Any) -> Any:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(yesterday).not_valid_after(yesterday + _VALID)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _host(host: str) -> Any:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


USERS = {"kohort": "kohort-secret"}
TOKEN_S = 3600
_ISSUER, _AUDIENCE = "kohort-test-issuer", "kohort"
_JAVA = "org.apache.kafka.common.security"
_MODULES = {"PLAIN": f"{_JAVA}.plain.PlainLoginModule", "OAUTHBEARER": f"{_JAVA}.oauthbearer.OAuthBearerLoginModule"}
_SCRAM_MODULE = f"{_JAVA}.scram.ScramLoginModule"


class ClientSettings(TypedDict, total=False):
    """Arguments of `Consumer`, `Producer` and `Admin`."""

    bootstrap_servers: str
    tls: ssl.SSLContext
    sasl: Sasl


class SecuredListener:
    """One listener; its files are in `directory`. Raises TypeError, and SettingsError without the extra [security]."""

    def __init__(
        self,
        directory: Path,
        protocol: str,
        mechanism: str | None,
        users: Mapping[str, str] | None,
        hosts: tuple[str, ...],
        client_auth: str,
    ) -> None:
        if protocol not in PROTOCOLS:
            raise TypeError(f"EmbeddedBroker: security_protocol={protocol!r} is not one of {', '.join(PROTOCOLS)}")
        if protocol.startswith("SASL_") != (mechanism is not None) or mechanism not in (None, *MECHANISMS):
            raise TypeError(
                f"EmbeddedBroker: sasl_mechanism={mechanism!r} with security_protocol={protocol!r}: SASL_PLAINTEXT and"
                f" SASL_SSL take one of {', '.join(MECHANISMS)}, the others none"
            )
        self.protocol = protocol
        self.mechanism = mechanism
        self.users = dict(USERS if users is None else users)
        self._user, self._password = next(iter(self.users.items()))
        self.ca_file: Path | None = None
        self.client_certificate: Path | None = None
        self._key: Any = None
        self.settings = {"listeners": ""} | self._tls_settings(directory, hosts, client_auth)
        if mechanism is not None:
            self.settings |= self._login_settings(directory, mechanism)

    def _tls_settings(self, directory: Path, hosts: tuple[str, ...], client_auth: str) -> dict[str, str]:
        if not self.protocol.endswith("SSL"):
            return {}
        authority = Authority(directory)
        self.ca_file = authority.certificate
        settings = {"ssl.keystore.location": str(authority.sign("broker", ("localhost", "127.0.0.1", "::1", *hosts)))}
        if client_auth != "none":
            self.client_certificate = authority.sign(self._user)
            settings |= {
                "ssl.truststore.location": str(self.ca_file),
                f"listener.name.{self.protocol.lower()}.ssl.client.auth": client_auth,
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
            }
        return settings

    def _login_settings(self, directory: Path, mechanism: str) -> dict[str, str]:
        settings = {"sasl.enabled.mechanisms": mechanism}
        users = ",".join(f"{name}:{password}" for name, password in self.users.items())
        if mechanism == "PLAIN":
            return settings | {"kohort.sasl.plain.users": users}
        if mechanism != "OAUTHBEARER":
            return settings | {"kohort.sasl.scram.users": users}
        self._key = new_key()
        keys = directory / "jwks.json"
        keys.write_text(json.dumps(jwks(self._key)))
        return settings | {
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.audience": _AUDIENCE,
            "sasl.oauthbearer.expected.issuer": _ISSUER,
        }

    def token(self, user: str | None = None, **claims: Any) -> str:
        """Return a signed token of a user, by default the first; `claims` go before those it would have."""
        assert self._key is not None, "there are tokens with the mechanism OAUTHBEARER"
        now_s = int(time.time())
        stated = {"sub": user or self._user, "iss": _ISSUER, "aud": _AUDIENCE, "iat": now_s, "exp": now_s + TOKEN_S}
        return signed_token(self._key, stated | claims)

    def client_settings(self, bootstrap_servers: str) -> ClientSettings:
        """Return the settings of kohort's clients."""
        found: ClientSettings = {"bootstrap_servers": bootstrap_servers}
        if self.ca_file is not None:
            found["tls"] = ssl.create_default_context(cafile=self.ca_file)
            if self.client_certificate is not None:
                found["tls"].load_cert_chain(self.client_certificate)
        if self.mechanism == "OAUTHBEARER":
            found["sasl"] = Sasl(self.mechanism, token=self.token)
        elif self.mechanism is not None:
            found["sasl"] = Sasl(self.mechanism, self._user, self._password)
        return found

    def java_properties(self, bootstrap_servers: str) -> dict[str, str]:
        """Return the settings of Java's clients and of Kafka's command line tools. Tokens are the program's part."""
        found = {"bootstrap.servers": bootstrap_servers, "security.protocol": self.protocol}
        if self.ca_file is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_file)}
        if self.client_certificate is not None:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.client_certificate)}
        if self.mechanism is not None:
            module = _MODULES.get(self.mechanism, _SCRAM_MODULE)
            user = "" if self._key is not None else f' username="{self._user}" password="{self._password}"'
            found |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": f"{module} required{user};"}
        return found

    def librdkafka_settings(self, bootstrap_servers: str) -> dict[str, Any]:
        """Return the settings of librdkafka, as confluent-kafka takes them."""
        found: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "security.protocol": self.protocol}
        if self.ca_file is not None:
            found["ssl.ca.location"] = str(self.ca_file)
        if self.client_certificate is not None:
            found |= {"ssl.certificate.location": str(self.client_certificate)}
            found |= {"ssl.key.location": str(self.client_certificate)}
        if self.mechanism == "OAUTHBEARER":
            found |= {"sasl.mechanism": self.mechanism}
            found["oauth_cb"] = lambda _: (self.token(), time.time() + TOKEN_S)
        elif self.mechanism is not None:
            found |= {"sasl.mechanism": self.mechanism}
            found |= {"sasl.username": self._user, "sasl.password": self._password}
        return found
