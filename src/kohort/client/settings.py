"""Names and values of the clients' settings.

A setting has one name: Kafka's, with underscores or dots; `security.protocol`, `sasl.*` and `ssl.*` are those of Java
and librdkafka. Any other name is a TypeError that suggests the one that is meant, so that no setting is ever ignored.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Literal, ParamSpec, TypeVar

from kohort.client.cluster.cluster import Cluster
from kohort.client.config_file import SECURITY, SecuritySettings, connection_arguments
from kohort.model.setting import FUNCTION, OBJECT, Setting, check_fields, setting, settings_of, unknown, value_text
from kohort.net.environment import random as random_number
from kohort.net.sasl import Sasl

P = ParamSpec("P")
ConfigT = TypeVar("ConfigT")

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
    """How a client reaches its cluster; the configs of all clients begin with it. Raises TypeError, ValueError."""

    bootstrap_servers: str | Sequence[str] = setting(
        MISSING, "Brokers to begin with: host:port, several with commas or as a list.", kind=OBJECT
    )
    client_id: str = setting("kohort", "The name of the client in the brokers' logs and quotas.")
    request_timeout_ms: int = setting(30_000, "How long a request may wait for its answer.", 1)
    tls: ssl.SSLContext | None = setting(
        None, "Encryption, instead of ssl_*.", kind=OBJECT, cls=ssl.SSLContext,
        expected="an ssl.SSLContext, such as ssl.create_default_context()",
    )  # fmt: skip
    sasl: Sasl | None = setting(
        None, "Authentication, instead of sasl_*.", kind=OBJECT, cls=Sasl,
        expected="a kohort.Sasl, such as Sasl('SCRAM-SHA-512', 'ann', 'secret')",
    )  # fmt: skip
    random: Callable[[], float] = setting(random_number, "Random numbers from 0 to 1, for tests.", kind=FUNCTION)

    def __post_init__(self) -> None:
        check_fields(self)

    def cluster(self, **more: Any) -> Cluster:
        """Return the cluster, not started, with more arguments of `Cluster`. Raises TypeError, ValueError."""
        own = {field.name: getattr(self, field.name) for field in fields(ClientConfig)}
        return Cluster(**own, **more)


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

_ADVICE = {name: f"here it is {ours}" for name, ours in _OF_OTHER_CLIENTS.items()} | _UNSUPPORTED


def takes_settings(config: type[ClientConfig]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Have an initializer called with settings that exist, each by its one name.

    `config` is the dataclass of the settings and their defaults; security settings become its `tls` and `sasl`, and the
    signature shows them all. The initializer then raises TypeError for what is no setting or of another type, and
    ValueError.
    """
    parameters = {
        each.name: Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=each.type,
        )
        for each in fields(config)
    }
    known = settings_of(config) | dict.fromkeys(parameters) | _SECURITY

    def decorate(initialize: Callable[P, None]) -> Callable[P, None]:
        @wraps(initialize)
        def checked(*args: P.args, **kwargs: P.kwargs) -> None:
            initialize(*args, **_read(type(args[0]).__name__, kwargs, known))

        own = signature(initialize)
        named = [each for each in own.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        options = [each for name, each in parameters.items() if name not in own.parameters]
        checked.__signature__ = own.replace(parameters=[*named, *options])  # type: ignore[attr-defined]
        return checked

    return decorate


def config_of(config: Callable[..., ConfigT], settings: Mapping[str, object], **more: object) -> ConfigT:
    """Return the dataclass of settings that `takes_settings` has read. Raises what its own checks raise."""
    return config(**settings, **more)


_SECURITY: dict[str, Setting[Any]] = {
    name: replace(SECURITY[name.replace("_", ".")], name=name) for name in SecuritySettings.__annotations__
}


def _read(owner: str, given: Mapping[str, Any], known: Mapping[str, object]) -> dict[str, Any]:
    """Return settings by their names, those of security as `tls` and `sasl`."""
    settings: dict[str, Any] = {}
    properties: dict[str, str] = {}
    for spelling, value in given.items():
        name = spelling.replace(".", "_")
        if name not in known:
            raise unknown(owner, name, known, advice=_ADVICE.get(name, ""), spelling=spelling)
        if name in settings:
            raise TypeError(f"{owner} is given {name!r} twice, as {spelling!r} too")
        settings[name] = value
    for name, each in _SECURITY.items():
        value = settings.pop(name, None)
        if isinstance(value, os.PathLike) and name.endswith("_location"):
            value = os.fspath(value)
        if (text := value_text(each.read(value))) is not None:
            properties[name.replace("_", ".")] = text
    if properties:
        if doubled := [name for name in ("tls", "sasl") if settings.get(name) is not None]:
            raise ValueError(f"{doubled[0]} and {min(properties).replace('.', '_')} mean the same: give one of them")
        if "OAUTHBEARER" in (properties.get("sasl.mechanism"), properties.get("sasl.mechanisms")):
            raise ValueError("OAUTHBEARER takes a function: sasl=Sasl('OAUTHBEARER', token=…), and tls=… for SASL_SSL")
        settings |= connection_arguments(properties)
    return settings
