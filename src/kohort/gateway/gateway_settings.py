"""Settings of a gateway: one frozen object, checked as a whole when it is made.

A TOML file has the same names, and `[[policies]]` in the order in which they are tried.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, TypedDict

from kohort.gateway.assigning.edge import ASSIGNOR_MS
from kohort.gateway.policies.group_policies import FALLBACK_MS
from kohort.gateway.policies.policies import PolicyTable, read_policies
from kohort.gateway.relay.read_budget import MAX_REQUEST_BYTES
from kohort.gateway.rewriting.node_addresses import NODE_ID_MARK
from kohort.model.setting import (
    ADDRESS,
    DAY_MS,
    INT,
    INT_MAX,
    LIST,
    OBJECT,
    PASSWORD,
    STRING,
    SettingsError,
    WrongSetting,
    address,
    check_fields,
    read_table,
    record,
    records,
    refused,
    setting,
    unknown,
)
from kohort.net.sasl import Sasl
from kohort.net.settings_files import located, read_file


class Mode(StrEnum):
    """How clients come to the gateway."""

    LISTENER = "listener"
    """Each broker has a listener of its own that advertises the gateway."""
    COORDINATORS = "coordinators"
    """Brokers that have only `__consumer_offsets` advertise the gateway."""
    REWRITE = "rewrite"
    """Brokers stay as they are, and the gateway replaces their addresses by its own."""


class ClusterSecurity(TypedDict, total=False):
    """Encryption and authentication of the gateway's own look-ups, as `Admin` takes them."""

    tls: ssl.SSLContext | None
    sasl: Sasl | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTls:
    """TLS towards clients."""

    certificate: str = setting(MISSING, "The PEM file with the certificate that clients are shown.", kind=STRING)
    key: str | None = setting(None, "Its key, where it is not in the same file.", kind=STRING)
    key_password: str | None = setting(None, "The password of the key.", kind=PASSWORD)
    client_authority: str | None = setting(None, "Clients must show a certificate that this one signed.", kind=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTls:
    """TLS towards brokers whose listener has it."""

    authority: str | None = setting(None, "Who signs their certificates; the system's if not set.", kind=STRING)
    certificate: str | None = setting(None, "The PEM file with the gateway's own certificate.", kind=STRING)
    key: str | None = setting(None, "Its key, where it is not in the same file.", kind=STRING)
    key_password: str | None = setting(None, "The password of the key.", kind=PASSWORD)


@dataclass(frozen=True, slots=True)
class AssignorRow:
    """One row of the table of assignors."""

    groups: str = setting(MISSING, "a pattern of groups with * and ?, such as 'billing-*'", 1, kind=STRING)
    assignor: str = setting(MISSING, "an assignor such as uniform or mypackage:by_lag", 1, kind=STRING)

    def __post_init__(self) -> None:
        check_fields(self)


def _node_ports(table: object) -> dict[int, int]:
    if not isinstance(table, Mapping) or not all(str(node).isascii() and str(node).isdigit() for node in table):
        raise WrongSetting("node_ports is no table of ports by node id: write 1 = 9201 below [node_ports]")
    return {int(node): port for node, port in table.items()}


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError:
        expected = "an address, or a network without further bits, such as 192.0.2.4 or 192.0.2.0/28"
        raise refused("proxy_protocol_from", text, expected) from None


LEAST_SECRET_BYTES = 16


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """What an operator decides about one gateway."""

    bootstrap_servers: str = setting(MISSING,
        "Brokers, on a listener where they advertise their own addresses.", kind=STRING)
    mode: Mode = setting(MISSING, "How clients come to the gateway.", kind=STRING, choices=tuple(Mode))
    advertised: tuple[str, ...] = setting(MISSING,
        "Host names, or HOST:PORT, by which clients reach the gateway, as in the brokers' advertised.listeners. In "
        "mode rewrite one HOST:PORT, at which clients begin: their bootstrap.servers.", kind=LIST)
    node_ports: Mapping[int, int] = setting({}, "Mode rewrite: ports of some nodes, by id; node n has the "
        "bootstrap port + 1 + n else.", cls=Mapping, reader=_node_ports)
    node_names: str | None = setting(None, "Mode rewrite: in place of ports a host name for each node, such as "
        "broker-$(nodeId).kafka.example.com.", kind=STRING)
    listen_host: str = setting("", "The address that the gateway listens on; empty for all of the machine.")
    proxy_protocol_from: tuple[str, ...] = setting((), "Load balancers, such as 192.0.2.4 or 192.0.2.0/28: "
        "each connection from there begins with a PROXY header (v1 or v2), and no other does.", kind=LIST)
    listener_tls: ListenerTls | None = setting(None, "TLS towards clients.",
        kind=OBJECT, cls=ListenerTls, reader=record("listener_tls", ListenerTls))
    broker_tls: BrokerTls | None = setting(None, "TLS towards brokers; else as --command-config has it.",
        kind=OBJECT, cls=BrokerTls, reader=record("broker_tls", BrokerTls))
    security: ClusterSecurity = field(default_factory=ClusterSecurity, repr=False)
    policies: PolicyTable = setting(PolicyTable(),
        "Which groups are parked, observed or not read; the first row that matches decides.",
        cls=PolicyTable, reader=read_policies)
    fallback_ms: int = setting(FALLBACK_MS,
        "For how long a group where parking went wrong is only observed.", 1_000, 7 * DAY_MS)
    assignors: tuple[AssignorRow, ...] = setting((), "Assignors that replace those of classic groups' leaders; the "
        "first row that matches a group decides.", kind=OBJECT, cls=tuple, reader=records("assignors", AssignorRow))
    assignor_ms: int = setting(ASSIGNOR_MS,
        "How long an assignor may take; then the leader's own assignment passes.", 10, 10_000)
    metrics: tuple[str, int] | None = setting(None, "Where Prometheus fetches metrics.", kind=ADDRESS)
    events: str = setting("none",
        "Where the events of groups are kept: none, topic (on the cluster), or a file's path.", 1)
    share_ports: bool = setting(False, "Whether other processes of this machine, instances of this gateway, listen on "
        "the same ports.")
    instances: tuple[str, ...] = setting((), "HOST:PORT of the other instances of this gateway; its own address among "
        "them is left out.")
    instances_listen: tuple[str, int] | None = setting(None,
        "Where this instance takes connections of the others.", kind=ADDRESS)
    instances_secret_file: str | None = setting(None,
        "A file with the secret that all instances share; blanks around it do not count.", kind=STRING)
    max_connections: int | None = setting(None,
        "Connections of clients at most; else what the limit of open files allows.", 1, 1_000_000, kind=INT)
    max_request_bytes: int = setting(MAX_REQUEST_BYTES,
        "A longer request ends its connection; a Produce is one.", 65_536, INT_MAX)
    drain_ms: int = setting(30_000, "How long connections may take to become idle when the gateway ends.", 0, 3_600_000)
    refresh_ms: int = setting(30_000, "How often the cluster's addresses are looked up.", 1_000, 3_600_000)
# fmt: on

    def __post_init__(self) -> None:
        check_fields(self)
        for each in self.bootstrap_servers.split(","):
            address("bootstrap_servers", each.strip())
        if not self.advertised:
            raise SettingsError(
                "advertised is empty: give the host name by which clients reach the gateway,"
                " as in the brokers' advertised.listeners"
            )
        for name in self.advertised:
            check_advertised(name)
        _ = self.trusted_proxies
        self._check_instances()
        self._check_rewriting()

    @property
    def trusted_proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks of `proxy_protocol_from`. Raises SettingsError."""
        return tuple(map(_network, self.proxy_protocol_from))

    def _check_instances(self) -> None:
        for each in self.instances:
            address("instances", each)
        is_alone = not self.instances and self.instances_listen is None
        if self.share_ports and is_alone:
            raise SettingsError(
                "share_ports is for instances that are linked, since members of a group come to any of them: give"
                " each of them instances, an instances_listen of its own, and instances_secret_file"
            )
        if is_alone and self.instances_secret_file is not None:
            raise SettingsError("instances_secret_file is of use with instances or instances_listen only")
        if not is_alone and self.instances_secret_file is None:
            raise SettingsError(
                "instances need instances_secret_file, a file with the same secret everywhere: make one with"
                " `openssl rand -hex 32`"
            )

    def read_secret(self) -> bytes:
        """Return the secret of the instances. Raises SettingsError."""
        assert self.instances_secret_file is not None, "it was checked"
        try:
            secret = Path(self.instances_secret_file).read_bytes().strip()
        except OSError as error:
            raise SettingsError(f"instances_secret_file: {error}") from error
        if len(secret) < LEAST_SECRET_BYTES:
            raise SettingsError(
                f"instances_secret_file = {self.instances_secret_file}: it has {len(secret)} bytes, and needs"
                f" {LEAST_SECRET_BYTES}: make one with `openssl rand -hex 32`"
            )
        return secret

    def _check_rewriting(self) -> None:
        if self.mode is not Mode.REWRITE:
            for name in ("node_ports", "node_names"):
                if getattr(self, name):
                    raise SettingsError(f"{name} is of use in mode rewrite only, not in mode {self.mode}")
            return
        if len(self.advertised) != 1 or not _has_port(self.advertised[0]):
            raise SettingsError(
                f"advertised = {', '.join(self.advertised)}: mode rewrite needs one HOST:PORT, at which clients begin,"
                " such as gateway.example:9192"
            )
        _, bootstrap_port = self.bootstrap_address
        for node_id, port in self.node_ports.items():
            if not isinstance(port, int) or not 0 < port < 65_536 or port == bootstrap_port:
                raise SettingsError(f"node_ports: {port!r} cannot be the port of node {node_id}")
        if len(set(self.node_ports.values())) < len(self.node_ports):
            raise SettingsError("node_ports: two nodes cannot have one port")
        if self.node_names is not None:
            if self.node_ports:
                raise SettingsError("node_names and node_ports exclude each other: nodes have a name or a port")
            if self.listener_tls is None:
                raise SettingsError("node_names needs listener_tls: clients send host names only in TLS (SNI)")
            if self.node_names.count(NODE_ID_MARK) != 1:
                raise SettingsError(
                    f"node_names = {self.node_names!r}: {NODE_ID_MARK} has to stand in it once, such as in"
                    f" broker-{NODE_ID_MARK}.kafka.example.com"
                )

    @property
    def bootstrap_address(self) -> tuple[str, int]:
        """Host and port at which clients begin, in mode `rewrite`. Raises SettingsError."""
        return address("advertised", self.advertised[0])


_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\](:\d+)?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+|[A-Za-z0-9_.-]+(:[^:]*)?")
"""An address of IPv6, or a host name, with a port or without."""


def _has_port(name: str) -> bool:
    return name.count(":") == 1 or "]:" in name


def check_advertised(name: object) -> None:
    """Check a name under which clients reach the gateway. Raises SettingsError."""
    if not isinstance(name, str) or _HOST.fullmatch(name) is None:
        raise refused(
            "advertised", name, "a host name without the listener's name, such as gateway.example or gateway:9192"
        )
    if name.count(":") == 1:
        address("advertised", name)


def read_settings_file(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file as arguments of `GatewaySettings`. Raises SettingsError."""
    table = read_file(path, is_toml=True)
    try:
        return read_settings(table)
    except SettingsError as error:
        raise located(path, error) from None


def read_settings(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table, as a file or the command line has them. Raises SettingsError."""
    if "security" in table:
        raise unknown("the gateway", "security", (), advice="its place is the file of --command-config")
    if isinstance(servers := table.get("bootstrap_servers"), list):
        table = {**table, "bootstrap_servers": ",".join(map(str, servers))}
    return read_table("the gateway", GatewaySettings, table)
