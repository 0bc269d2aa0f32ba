"""A listener with TLS and a login for tests, from two words: certificates, users, and the settings of clients.

`security_protocol` and `sasl_mechanism` are those of clients. The client's user is the first of `users`.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from kohort.broker.certificates import Authority, new_key
from kohort.broker.json_web_tokens import jwks, signed_token
from kohort.net.sasl import Sasl
from kohort.node.configuration.broker_settings import MECHANISMS
from kohort.node.configuration.listeners import PROTOCOLS

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
