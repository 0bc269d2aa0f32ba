"""Settings of a gateway: one frozen object, checked as a whole when it is made.

Errors are `SettingsError`, a sentence with the setting, its value and what to give instead. A TOML file has the same
names, and `[[policies]]` in the order in which they are tried.
"""

from __future__ import annotations

import re
import ssl
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, TypedDict

from kohort.gateway.core.edge.edge import ASSIGNOR_MS
from kohort.gateway.core.fallbacks import FALLBACK_MS
from kohort.gateway.core.policies import PolicyError, PolicyTable, read_policies
from kohort.gateway.core.read_budget import MAX_REQUEST_BYTES
from kohort.gateway.core.rewriting.node_addresses import NODE_ID_MARK
from kohort.model.setting import SettingsError
from kohort.net.sasl import Sasl


class Mode(StrEnum):
    """How clients come to the gateway."""

    LISTENER = "listener"
    """Each broker has a listener of its own that advertises the gateway."""
    COORDINATORS = "coordinators"
    """Brokers that hold only `__consumer_offsets` advertise the gateway."""
    REWRITE = "rewrite"
    """Brokers stay as they are, and the gateway replaces their addresses by its own."""


class ClusterSecurity(TypedDict, total=False):
    """Encryption and authentication of the gateway's own look-ups, as `Admin` takes them."""

    tls: ssl.SSLContext | None
    sasl: Sasl | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTls:
    """TLS towards clients: PEM files. `client_authority` demands certificates of clients that it has signed."""

    certificate: str
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    client_authority: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTls:
    """TLS towards brokers whose listener has it: PEM files; without an authority the system's are trusted."""

    authority: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AssignorRow:
    """One row of the table of assignors: a pattern of groups with `*` and `?`, and an assignor's name."""

    groups: str
    assignor: str

    def __post_init__(self) -> None:
        for name in ("groups", "assignor"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text:
                raise SettingsError(
                    f"assignors: {name} = {text!r} is no text: give groups such as 'billing-*', and an assignor such as"
                    " uniform or mypackage:by_lag"
                )


_LEAST_MOST = {
    "assignor_ms": (10, 10_000),
    "drain_ms": (0, 3_600_000),
    "refresh_ms": (1_000, 3_600_000),
    "fallback_ms": (1_000, 7 * 86_400_000),
    "max_connections": (1, 1_000_000),
    "max_request_bytes": (65_536, 2_147_483_647),
}
LEAST_SECRET_BYTES = 16
EVENTS_FORMS = "none, topic, or a file's path"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """What an operator decides about one gateway."""

    bootstrap_servers: str
    """Brokers, on a listener where they advertise their own addresses."""
    mode: Mode
    advertised: tuple[str, ...]
    """Host names, or HOST:PORT, by which clients reach the gateway, as in the brokers' `advertised.listeners`.

    In mode `rewrite` one HOST:PORT, at which clients begin: their `bootstrap.servers`.
    """
    node_ports: Mapping[int, int] = field(default_factory=dict)
    """Mode `rewrite`: ports of some nodes, by id; node n has the bootstrap port + 1 + n else."""
    node_names: str | None = None
    """Mode `rewrite`: in place of ports a host name for each node, such as `broker-$(nodeId).kafka.example.com`."""
    listen_host: str = ""
    """The address that the gateway listens on; empty for all of the machine."""
    listener_tls: ListenerTls | None = None
    broker_tls: BrokerTls | None = None
    """Without it, brokers whose listener has TLS are trusted as `security` has it."""
    security: ClusterSecurity = field(default_factory=ClusterSecurity, repr=False)
    policies: PolicyTable = field(default_factory=PolicyTable)
    fallback_ms: int = FALLBACK_MS
    """For how long a group where parking went wrong is only observed."""
    assignors: tuple[AssignorRow, ...] = ()
    """Assignors that replace those of classic groups' leaders; the first row that matches a group decides."""
    assignor_ms: int = ASSIGNOR_MS
    """How long an assignor may take; then the leader's own assignment passes."""
    metrics: tuple[str, int] | None = None
    """Host and port of the Prometheus endpoint."""
    events: str = "none"
    """Where the events of groups are kept: `none`, `topic` (on the cluster), or a file's path."""
    share_ports: bool = False
    """Whether other processes of this machine, instances of this gateway, listen on the same ports."""
    instances: tuple[str, ...] = ()
    """HOST:PORT of the other instances of this gateway; its own address among them is left out."""
    instances_listen: tuple[str, int] | None = None
    """Where this instance takes connections of the others."""
    instances_secret_file: str | None = None
    """A file with the secret that all instances share; blanks around it do not count."""
    max_connections: int | None = None
    """Connections of clients at most; None for what the limit of open files allows."""
    max_request_bytes: int = MAX_REQUEST_BYTES
    """A longer request ends its connection; a Produce is one."""
    drain_ms: int = 30_000
    """How long connections may take to become idle when the gateway ends."""
    refresh_ms: int = 30_000
    """How often the cluster's addresses are looked up."""

    def __post_init__(self) -> None:
        if not isinstance(self.mode, Mode):
            raise SettingsError(f"mode = {self.mode!r} is not one of {', '.join(Mode)}")
        for address in self.bootstrap_servers.split(","):
            split_address("bootstrap_servers", address.strip())
        if not self.advertised:
            raise SettingsError(
                "advertised is empty: give the host name by which clients reach the gateway,"
                " as in the brokers' advertised.listeners"
            )
        for name in self.advertised:
            check_advertised(name)
        for name, (least, most) in _LEAST_MOST.items():
            number = getattr(self, name)
            if number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
                raise SettingsError(f"{name} = {number!r}: expected a whole number from {least} to {most}")
        self._check_instances()
        self._check_rewriting()
        if not self.events:
            raise SettingsError(f"events is empty: expected {EVENTS_FORMS}")

    def _check_instances(self) -> None:
        for address in self.instances:
            split_address("instances", address)
        is_alone = not self.instances and self.instances_listen is None
        if not isinstance(self.share_ports, bool):
            raise SettingsError(f"share_ports = {self.share_ports!r} is not true or false")
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
        return split_address("advertised", self.advertised[0])


_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\](:\d+)?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+|[A-Za-z0-9_.-]+(:[^:]*)?")
"""An address of IPv6, or a host name, with a port or without."""


def split_address(setting: str, text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT. Raises SettingsError."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise SettingsError(f"{setting} = {text!r} is not HOST:PORT, such as kafka-1.example:9092")
    return host, int(port)


def _has_port(name: str) -> bool:
    return name.count(":") == 1 or "]:" in name


def check_advertised(name: object) -> None:
    """Check a name under which clients reach the gateway. Raises SettingsError."""
    if not isinstance(name, str) or _HOST.fullmatch(name) is None:
        raise SettingsError(
            f"advertised = {name!r} is no host name: give it as the brokers' advertised.listeners do,"
            " without the listener's name, such as gateway.example or gateway.example:9192"
        )
    if name.count(":") == 1:
        split_address("advertised", name)


# -- a file of settings

_TABLES: Mapping[str, type[ListenerTls] | type[BrokerTls]] = {"listener_tls": ListenerTls, "broker_tls": BrokerTls}
_OF_OPTIONS = ("security",)


def read_settings_file(path: Path) -> dict[str, Any]:
    """Return the settings of a TOML file as arguments of `GatewaySettings`. Raises SettingsError."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from None
    try:
        return read_settings(table)
    except (SettingsError, PolicyError) as error:
        raise SettingsError(f"{path}: {error}") from None


def read_settings(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table, as a file or the command line has them. Raises SettingsError, PolicyError."""
    known = {each.name for each in fields(GatewaySettings)}.difference(_OF_OPTIONS)
    settings: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            hint = ": its place is the file of --command-config" if name in _OF_OPTIONS else ""
            raise SettingsError(f"there is no setting {name!r}{hint}: there are {', '.join(sorted(known))}")
        if name == "policies":
            settings[name] = read_policies(value)
        elif name == "assignors":
            settings[name] = _read_assignors(value)
        elif name in _TABLES:
            settings[name] = _read_tls(name, value)
        elif name == "mode":
            settings[name] = read_mode(value)
        elif name == "advertised":
            settings[name] = tuple(value) if isinstance(value, list) else (value,)
        elif name == "node_ports":
            settings[name] = _read_node_ports(value)
        elif name in ("metrics", "instances_listen"):
            settings[name] = split_address(name, str(value))
        elif name == "instances":
            settings[name] = tuple(map(str, value)) if isinstance(value, list) else (str(value),)
        elif name == "bootstrap_servers":
            settings[name] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        elif name in ("listen_host", "events", "node_names", "instances_secret_file") and not isinstance(value, str):
            raise SettingsError(f"{name} = {value!r}: expected a text")
        else:
            settings[name] = value
    return settings


def _read_assignors(rows: object) -> tuple[AssignorRow, ...]:
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise SettingsError("assignors are a list of tables: write [[assignors]] above each")
    columns = [each.name for each in fields(AssignorRow)]
    for number, row in enumerate(rows, 1):
        if row.keys() != set(columns):
            raise SettingsError(f"assignors: row {number} has {', '.join(row) or 'nothing'}: give {', '.join(columns)}")
    return tuple(AssignorRow(**row) for row in rows)


def _read_node_ports(table: object) -> dict[int, int]:
    if not isinstance(table, Mapping) or not all(str(node).isascii() and str(node).isdigit() for node in table):
        raise SettingsError("node_ports is no table of ports by node id: write 1 = 9201 below [node_ports]")
    return {int(node): port for node, port in table.items()}


def read_mode(text: object) -> Mode:
    """Return the mode of this name. Raises SettingsError."""
    try:
        return Mode(text)  # type: ignore[arg-type]
    except ValueError:
        raise SettingsError(f"mode = {text!r} is not one of {', '.join(Mode)}") from None


def _read_tls(name: str, table: object) -> ListenerTls | BrokerTls:
    kind = _TABLES[name]
    known = [each.name for each in fields(kind)]
    if not isinstance(table, Mapping):
        raise SettingsError(f"{name} is no table: write [{name}] above its settings")
    for column, value in table.items():
        if column not in known:
            raise SettingsError(f"{name} has no setting {column!r}: there are {', '.join(known)}")
        if not isinstance(value, str):
            raise SettingsError(f"{name}.{column} = {value!r}: expected a text")
    if kind is ListenerTls and "certificate" not in table:
        raise SettingsError(f"{name} lacks certificate, the PEM file that clients are shown")
    return kind(**table)
