"""Names and values of the clients' settings.

A setting has one name: Kafka's, with underscores or dots; `security.protocol`, `sasl.*` and `ssl.*` are those of Java
and librdkafka. Any other name is a TypeError that suggests the one that is meant, so that no setting is ever ignored.
"""

from __future__ import annotations

import difflib
import os
import ssl
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from inspect import Parameter, iscoroutinefunction, signature
from typing import Any, Literal, ParamSpec, TypeVar

from kohort.client.arguments import MOST, check_text, of_type, whole_number
from kohort.client.cluster.cluster import Cluster
from kohort.client.config_file import SecuritySettings, reach
from kohort.client.rebalance_listener import RebalanceListener
from kohort.net.environment import random as random_number
from kohort.net.sasl import Sasl

P = ParamSpec("P")
ConfigT = TypeVar("ConfigT")

AutoOffsetReset = Literal["earliest", "latest", "none"]
IsolationLevel = Literal["read_uncommitted", "read_committed"]


class ClientSettings(SecuritySettings, total=False):
    """The keyword arguments that `Consumer`, `Producer` and `Admin` have in common."""

    client_id: str
    request_timeout_ms: int
    tls: ssl.SSLContext | None
    sasl: Sasl | None
    random: Callable[[], float]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class ClientConfig:
    """How a client reaches its cluster; the configs of all three clients begin with it."""

    bootstrap_servers: str | Sequence[str]
    client_id: str = "kohort"
    request_timeout_ms: int = 30_000
    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None
    random: Callable[[], float] = random_number

    def cluster(self, **more: Any) -> Cluster:
        """Return the cluster, not started, with more arguments of `Cluster`. Raises TypeError, ValueError."""
        own = {field.name: getattr(self, field.name) for field in fields(ClientConfig)}
        return Cluster(**own, **more)


_SECURITY = frozenset(SecuritySettings.__annotations__)

RENAMED = {
    "assignor": "group_remote_assignor",
    "compression": "compression_type",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "protocol": "group_protocol",
}
"""Old names and Kafka's, which took their place; the old ones are understood, with a warning, for one release."""

_TLS = "tls=ssl.SSLContext"
_OF_OTHER_CLIENTS = {
    "auto_commit_enable": "enable_auto_commit",
    "batch_num_messages": "batch_size, in bytes",
    "compression_codec": "compression_type",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "max_batch_size": "batch_size",
    "max_in_flight_requests": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "message_timeout_ms": "delivery_timeout_ms",
    "metadata_broker_list": "bootstrap_servers",
    "oauth_cb": "sasl=Sasl('OAUTHBEARER', token=…)",
    "partition_assignment_strategy": "assignors, as objects: assignors=[CooperativeStickyAssignor()]",
    "partitioner_class": "partitioner, a function of key and number of partitions",
    "queue_buffering_max_kbytes": "buffer_memory, in bytes",
    "queue_buffering_max_messages": "buffer_memory, in bytes",
    "queue_buffering_max_ms": "linger_ms",
    "rebalance_cb": "listener, or subscribe(…, on_assigned=…, on_revoked=…, on_lost=…)",
    "rebalance_timeout_ms": "max_poll_interval_ms",
    "request_required_acks": "acks",
    "sasl_login_callback_handler_class": "sasl=Sasl('OAUTHBEARER', token=…)",
    "sasl_oauth_token_provider": "sasl=Sasl('OAUTHBEARER', token=…)",
    "sasl_plain_password": "sasl_password",
    "sasl_plain_username": "sasl_username",
    "ssl_ca_pem": _TLS,
    "ssl_cafile": "ssl_ca_location",
    "ssl_certfile": "ssl_certificate_location",
    "ssl_check_hostname": "ssl_endpoint_identification_algorithm ('' checks no host name)",
    "ssl_cipher_suites": _TLS,
    "ssl_ciphers": _TLS,
    "ssl_context": _TLS,
    "ssl_crlfile": _TLS,
    "ssl_enabled_protocols": _TLS,
    "ssl_keyfile": "ssl_key_location",
    "ssl_keystore_password": "ssl_key_password, with a PEM file",
    "ssl_password": "ssl_key_password",
    "ssl_truststore_password": "ssl_ca_location, a PEM file, which has no password",
}
"""Names of settings in other clients, or in Java where Python has something else, and ours."""

_UNSUPPORTED = {
    "allow_auto_create_topics": "a consumer creates no topic",
    "api_version": "a client and a broker agree on versions by themselves",
    "connections_max_idle_ms": "connections stay open for as long as the client",
    "consumer_timeout_ms": "poll(timeout_ms=…) ends after its timeout, 'for' and 'async for' do not end",
    "default_api_timeout_ms": "methods that wait take a timeout_ms, requests request_timeout_ms",
    "default_offset_commit_callback": "commit_async(on_complete=…) takes a function",
    "enable_auto_offset_store": "a record counts as finished when poll is called again",
    "enable_partition_eof": "end_offsets() returns where a partition ends",
    "loop": "a client uses the running loop",
    "interceptor_classes": "wrap the calls of the program instead",
    "message_send_max_retries": "a batch is sent again until delivery_timeout_ms is over",
    "metric_reporters": "metrics() returns what was measured",
    "reconnect_backoff_max_ms": "a client waits longer after each failure, up to a second",
    "reconnect_backoff_ms": "a client waits longer after each failure, up to a second",
    "retries": "a batch is sent again until delivery_timeout_ms is over",
    "retry_backoff_max_ms": "a client waits longer after each failure, up to a second",
    "retry_backoff_ms": "a client waits longer after each failure, up to a second",
}

_FROM_ZERO = frozenset(
    {
        "acceptable_recovery_lag",
        "batch_size",
        "fetch_max_wait_ms",
        "fetch_min_bytes",
        "max_block_ms",
        "start_timeout_ms",
    }
)
"""Whole numbers that may be 0; all others are at least 1."""
_CHOICES: Mapping[str, tuple[object, ...]] = {
    "acks": ("all", "1", "0", "-1", 1, 0, -1),
    "auto_offset_reset": ("earliest", "latest", "none"),
    "group_protocol": ("classic", "consumer", "auto"),
    "isolation_level": ("read_uncommitted", "read_committed"),
}
_OBJECTS: Mapping[str, tuple[type, str]] = {
    "listener": (RebalanceListener, "a kohort.RebalanceListener: derive its class from that one"),
    "sasl": (Sasl, "a kohort.Sasl, such as Sasl('SCRAM-SHA-512', 'ann', 'secret')"),
    "tls": (ssl.SSLContext, "an ssl.SSLContext, such as ssl.create_default_context()"),
}


def understood(config: type[ClientConfig]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Have an initializer called with settings that exist, each by its one name and of a value that can be meant.

    `config` is the dataclass of the settings and their defaults; security settings become its `tls` and `sasl`, and the
    signature shows them all. The initializer then raises TypeError for what is no setting or of another type, and
    ValueError.
    """
    parameters = {
        field.name: Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=field.type,
        )
        for field in fields(config)
    }
    known = dict.fromkeys(_SECURITY, (None, ""))
    known |= {name: (parameter.default, parameter.annotation) for name, parameter in parameters.items()}

    def decorate(initialize: Callable[P, None]) -> Callable[P, None]:
        @wraps(initialize)
        def checked(*args: P.args, **kwargs: P.kwargs) -> None:
            initialize(*args, **_read(type(args[0]).__name__, kwargs, known))

        own = signature(initialize)
        kept = [each for each in own.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        shown = [each for name, each in parameters.items() if name not in own.parameters]
        checked.__signature__ = own.replace(parameters=[*kept, *shown])  # type: ignore[attr-defined]
        return checked

    return decorate


def config_of(config: Callable[..., ConfigT], settings: Mapping[str, object], **more: object) -> ConfigT:
    """Return the dataclass of settings that `understood` has read. Raises what its own checks raise."""
    return config(**settings, **more)


def _no_such_setting(owner: str, spelling: str, name: str, known: Iterable[str]) -> TypeError:
    text = f"{owner} has no setting {spelling!r}"
    if name in _OF_OTHER_CLIENTS:
        return TypeError(f"{text}: here it is {_OF_OTHER_CLIENTS[name]}")
    if name in _UNSUPPORTED:
        return TypeError(f"{text}: {_UNSUPPORTED[name]}")
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
    return TypeError(text + (f"; did you mean {near[0]!r}?" if near else ": its settings have Kafka's names"))


def _read(owner: str, given: Mapping[str, Any], known: Mapping[str, tuple[object, str]]) -> dict[str, Any]:
    """Return settings by their names; `known` has the default and the declared type of each."""
    settings: dict[str, Any] = {}
    for spelling, value in given.items():
        name = spelling.replace(".", "_")
        if (renamed := RENAMED.get(name)) is not None and renamed in known:
            text = f"{owner}({name}=…) is {renamed}=… now, as in Kafka; the old name ends with the next release"
            warnings.warn(text, DeprecationWarning, stacklevel=_stack_level())
            name = renamed
        if name not in known:
            raise _no_such_setting(owner, spelling, name, known)
        if name in settings:
            raise TypeError(f"{owner} is given {name!r} twice, as {spelling!r} too")
        default, kind = known[name]
        settings[name] = None if value is None and default is None else _value(name, kind, value)
    security = {name: settings.pop(name) for name in sorted(_SECURITY & settings.keys())}
    if properties := {name.replace("_", "."): value for name, value in security.items() if value is not None}:
        if doubled := [name for name in ("tls", "sasl") if settings.get(name) is not None]:
            raise ValueError(f"{doubled[0]} and {next(iter(security))} mean the same: give one of them")
        if properties.get("sasl.mechanism") == "OAUTHBEARER" or properties.get("sasl.mechanisms") == "OAUTHBEARER":
            raise ValueError("OAUTHBEARER takes a function: sasl=Sasl('OAUTHBEARER', token=…), and tls=… for SASL_SSL")
        settings |= reach(properties)
    return settings


def _value(name: str, kind: str, value: Any) -> Any:
    """Return the value of a setting that is declared as `kind`. Raises TypeError, ValueError."""
    if name in _SECURITY:
        return _security_value(name, value)
    if kind == "int":
        return whole_number(name, value, 0 if name in _FROM_ZERO else 1, 2**63 - 1 if name == "buffer_memory" else MOST)
    if kind == "float":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise of_type(name, value, "a number of milliseconds")
        if not 0 <= value <= MOST:
            raise ValueError(f"{name}={value!r}: expected 0 to {MOST} milliseconds")
    elif kind in ("bool", "bool | None"):
        if not isinstance(value, bool):
            raise of_type(name, value, "True or False")
    elif kind in ("str", "str | None"):
        check_text(name, value)
    elif name in _CHOICES:
        if isinstance(value, bool) or not isinstance(value, str | int) or value not in _CHOICES[name]:
            raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, _CHOICES[name]))}")
    elif kind.startswith(("Callable", "Deserializer")):
        if not callable(value):
            raise of_type(name, value, "a function")
        if iscoroutinefunction(value):
            raise TypeError(f"{name}={value!r} is async: expected a plain function")
    elif name in _OBJECTS and not isinstance(value, _OBJECTS[name][0]):
        raise of_type(name, value, _OBJECTS[name][1])
    return value


def _security_value(name: str, value: Any) -> str:
    if name == "enable_ssl_certificate_verification":
        if not isinstance(value, bool):
            raise of_type(name, value, "True or False")
        return "true" if value else "false"
    if not isinstance(value, str | os.PathLike) or (isinstance(value, os.PathLike) and "location" not in name):
        raise of_type(name, value, "a str")
    return os.fspath(value)


def _stack_level() -> int:
    """Return how far away, from the caller, the program's own line is: warnings name that one."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("kohort."):
        level, frame = level + 1, frame.f_back
    return level
