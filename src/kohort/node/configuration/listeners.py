"""The listeners of a broker: where it listens, where clients connect to, and by which security protocol.

`listeners`, `advertised.listeners` and `listener.security.protocol.map` in Kafka's notation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from kohort.model.acl import ANONYMOUS, Principal
from kohort.model.setting import SettingsError, listed, refused
from kohort.node.configuration.broker_settings import MECHANISMS
from kohort.node.configuration.config import OF_LISTENER, Config, ListenerConfig
from kohort.node.configuration.principal_mapping import PrincipalMapping, subject
from kohort.wire.jaas import jaas_options

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ENDPOINT = re.compile(r"(?:(\w[\w.-]*)://)?(\[[0-9a-fA-F:]+\]|[^:/\[\],]*):(\d+)")

Address = tuple[str, int]


@dataclass(slots=True, eq=False)
class Listener:
    """One listener. The port of `address` and `advertised` may be 0 until the broker listens."""

    name: str
    protocol: str
    address: Address
    settings: ListenerConfig = field(repr=False)
    advertised: Address
    mapping: PrincipalMapping = field(repr=False)

    @property
    def has_tls(self) -> bool:
        """Whether its connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether its clients must log in."""
        return self.protocol.startswith("SASL_")

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms by which clients may log in."""
        if not self.has_sasl:
            return ()
        if (enabled := self.settings.sasl_enabled_mechanisms) is not None:
            return enabled
        is_ready = {"PLAIN": bool(self.plain_users), "OAUTHBEARER": self.bearer.sasl_oauthbearer_jwks_endpoint_url}
        return tuple(name for name in MECHANISMS if is_ready.get(name, True))

    @property
    def plain_users(self) -> dict[str, str]:
        """The users of PLAIN and their passwords: the listener's own, else the broker's."""
        jaas = self.settings.of_mechanism("PLAIN").own("sasl.jaas.config")
        if jaas is None:
            return self.settings.broker.plain_users
        users = jaas_options(jaas)
        return {name.removeprefix("user_"): value for name, value in users if name.startswith("user_")}

    @property
    def bearer(self) -> ListenerConfig:
        """The settings of OAUTHBEARER."""
        return self.settings.of_mechanism("OAUTHBEARER")

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Return who a client is by its certificate (DER), before any login. Raises ValueError."""
        if certificate is None or self.has_sasl:
            return ANONYMOUS
        return Principal("User", self.mapping.name(subject(certificate)))

    @property
    def client_auth(self) -> str:
        """Whether clients show a certificate: none, requested or required.

        A client of SASL_SSL has a name by its login, so it is asked for a certificate only where that is a setting of
        the listener itself (KIP-684).
        """
        asked = self.settings.own("ssl.client.auth") if self.has_sasl else self.settings.ssl_client_auth
        return asked or "none"


def endpoint(name: str, address: Address) -> str:
    """Return an entry of `listeners` or `advertised.listeners`."""
    return f"{name}://{address_text(address)}"


def address_text(address: Address) -> str:
    """Return HOST:PORT."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listeners_of(config: Config) -> tuple[Listener, ...]:
    """Return the listeners that settings name, the first of them first. Raises SettingsError."""
    bound = _endpoints("listeners", config.listeners)
    if not bound:
        raise SettingsError("listeners is empty: expected NAME://HOST:PORT")
    advertised = _endpoints("advertised.listeners", config.advertised_listeners or (), default=next(iter(bound)))
    if strange := advertised.keys() - bound.keys():
        raise SettingsError(f"advertised.listeners names {', '.join(sorted(strange))}, which listeners does not")
    protocols = _protocols(config, bound)
    _check_names(config, bound)
    found = []
    for name, address in bound.items():
        settings = ListenerConfig(config, name)
        try:
            mapping = PrincipalMapping(settings.ssl_principal_mapping_rules)
        except ValueError as error:
            raise SettingsError(f"ssl.principal.mapping.rules: {error}") from None
        found.append(Listener(name, protocols[name], address, settings, advertised.get(name, address), mapping))
        _check_mechanisms(found[-1])
    return tuple(found)


def _endpoints(setting: str, texts: Iterable[str], default: str = "PLAINTEXT") -> dict[str, Address]:
    found: dict[str, Address] = {}
    for text in texts:
        match = _ENDPOINT.fullmatch(text)
        if match is None or int(match[3]) > 65535:
            raise refused(setting, text, "NAME://HOST:PORT, such as SSL://:9093")
        name = (match[1] or default).upper()
        if name in found:
            raise SettingsError(f"{setting} names {name} twice: give one a name of its own, and its protocol in"
                              " listener.security.protocol.map")  # fmt: skip
        found[name] = (match[2].strip("[]"), int(match[3]))
    return found


def _protocols(config: Config, names: Iterable[str]) -> dict[str, str]:
    """Return the security protocol of each listener."""
    known = {name: name for name in PROTOCOLS}
    for text in config.listener_security_protocol_map or ():
        name, _, protocol = text.upper().partition(":")
        if protocol not in PROTOCOLS:
            raise refused("listener.security.protocol.map", text, f"NAME:PROTOCOL, with {listed(PROTOCOLS)}")
        known[name] = protocol
    if strange := [name for name in names if name not in known]:
        raise SettingsError(
            f"listeners names {strange[0]}, which is no security protocol: add {strange[0]}:PROTOCOL to"
            f" listener.security.protocol.map, with {', '.join(PROTOCOLS)}"
        )
    found = {name: known[name] for name in names}
    if config.plain_users and not any(protocol.startswith("SASL_") for protocol in found.values()):
        # Before there were several listeners, users alone made the one listener require a login.
        return {name: f"SASL_{protocol}" for name, protocol in found.items()}
    return found


def _check_mechanisms(listener: Listener) -> None:
    """Raise SettingsError where a listener offers a mechanism by which no client can log in."""
    if "PLAIN" in listener.mechanisms and not listener.plain_users:
        raise SettingsError(
            f"listener {listener.name} offers PLAIN and has no users: set kohort.sasl.plain.users, or"
            f" listener.name.{listener.name.lower()}.plain.sasl.jaas.config"
        )
    if "OAUTHBEARER" in listener.mechanisms and listener.bearer.sasl_oauthbearer_jwks_endpoint_url is None:
        raise SettingsError(
            f"listener {listener.name} offers OAUTHBEARER and has no keys: set sasl.oauthbearer.jwks.endpoint.url"
        )


def _check_names(config: Config, names: Iterable[str]) -> None:
    """Raise SettingsError where a setting is meant for a listener that there is not."""
    known = {name.lower() for name in names}
    for setting in config.static:
        if (own := OF_LISTENER.fullmatch(setting)) and own[1] not in known:
            raise SettingsError(
                f"{setting} is for a listener {own[1]!r}, and there is none: listeners has"
                f" {', '.join(sorted(known))} (in lower case)"
            )
