"""Settings of the clients: each has one name, none is ignored, and a value that cannot be meant is refused by name."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from typing import Any

import pytest

import kohort
from kohort import Sasl, sync

AT = {"bootstrap_servers": "127.0.0.1:1"}
Client = Callable[..., Any]
CLIENTS: list[Client] = [
    kohort.Consumer,
    kohort.Producer,
    kohort.Admin,
    sync.Consumer,
    sync.Producer,
    sync.Admin,
]
each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: f"{client.__module__}.{client.__name__}")


def secured(client: Any) -> tuple[ssl.SSLContext | None, Sasl | None]:
    """What the client's connections are made with."""
    pool = getattr(client, "_client", client)._cluster.pool
    return pool.tls, pool.sasl


@each_client
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"client_ids": "x"}, "has no setting 'client_ids'; did you mean 'client_id'?"),
        ({"client.ids": "x"}, "has no setting 'client.ids'; did you mean 'client_id'?"),
        ({"securty_protocol": "SSL"}, "did you mean 'security_protocol'?"),
        ({"sasl_plain_username": "ann"}, "here it is sasl_username"),
        ({"ssl_cafile": "ca.pem"}, "here it is ssl_ca_location"),
        ({"ssl_context": None}, "here it is tls=ssl.SSLContext"),
        ({"sasl_oauth_token_provider": None}, "here it is sasl=Sasl('OAUTHBEARER', token=…)"),
        ({"loop": None}, "a client uses the running loop"),
        ({"xyzzy": 1}, "has no setting 'xyzzy': "),
    ],
)
def test_a_setting_that_does_not_exist_is_refused_with_the_name_that_is_meant(
    client: Client, settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(f"{client.__name__} has no setting")) as refused:
        client(**AT, **settings)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("client", "name", "text"),
    [
        (kohort.Consumer, "partition_assignment_strategy", "assignors=[CooperativeStickyAssignor()]"),
        (kohort.Consumer, "sesion.timeout.ms", "did you mean 'session_timeout_ms'?"),
        (kohort.Consumer, "fetch.wait.max.ms", "here it is fetch_max_wait_ms"),
        (kohort.Consumer, "consumer_timeout_ms", "poll(timeout_ms=…)"),
        (kohort.Producer, "retries", "delivery_timeout_ms"),
        (kohort.Producer, "queue.buffering.max.ms", "here it is linger_ms"),
        (kohort.Producer, "lingr_ms", "did you mean 'linger_ms'?"),
    ],
)
def test_what_other_clients_call_a_setting_is_named(client: Client, name: str, text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        client(**AT, **{name: 1})


@each_client
def test_security_by_kafkas_names_secures_the_connections(client: Client) -> None:
    names = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "ann", "sasl_password": "pw"}
    for settings in (names, {name.replace("_", "."): value for name, value in names.items()}):
        tls, sasl = secured(client(**AT, **settings))
        assert isinstance(tls, ssl.SSLContext)
        assert tls.check_hostname
        assert sasl == Sasl("PLAIN", "ann", "pw")
    loose = {"security_protocol": "SSL", "enable_ssl_certificate_verification": False}
    context, sasl = secured(client(**AT, **loose))
    assert context is not None
    assert (context.verify_mode, sasl) == (ssl.CERT_NONE, None)
    assert secured(client(**AT, security_protocol="PLAINTEXT", sasl_mechanism=None)) == (None, None)


@each_client
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"sasl_username": "ann"}, "security.protocol is not given, which stands for PLAINTEXT"),
        ({"ssl_ca_location": "ca.pem"}, "give security.protocol=SSL or SASL_SSL"),
        ({"security_protocol": "SSL", "sasl_username": "ann"}, "give security.protocol=SASL_SSL"),
        ({"security_protocol": "SASL_PLAINTEXT", "ssl_key_location": "k"}, "makes no use of ssl.key.location"),
        ({"security_protocol": "TLS"}, "expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ({"security_protocol": "SASL_SSL"}, "there is no sasl.mechanism"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "sasl=Sasl('OAUTHBEARER', token=…)"),
        ({"security_protocol": "SSL", "tls": ssl.create_default_context()}, "give one of them"),
        ({"bootstrap_servers": "SSL://127.0.0.1:1"}, "security_protocol='SSL' is a setting"),
    ],
)
def test_security_is_never_ignored(client: Client, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        client(**AT | settings)


@each_client
@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        ({"request_timeout_ms": "10000"}, TypeError, "request_timeout_ms='10000' is a str: expected a whole number"),
        ({"request_timeout_ms": 0.5}, TypeError, "is a float: expected a whole number of milliseconds"),
        ({"request_timeout_ms": True}, TypeError, "request_timeout_ms=True is a bool"),
        ({"request_timeout_ms": None}, TypeError, "request_timeout_ms=None"),
        (
            {"request_timeout_ms": -1},
            ValueError,
            "=-1: expected a whole number of milliseconds from 1 to 2147483647",
        ),
        ({"request_timeout_ms": 2**31}, ValueError, "request_timeout_ms=2147483648: expected"),
        ({"client_id": b"x"}, TypeError, "client_id=b'x' is a bytes: expected a str"),
        ({"client_id": "x" * 40_000}, ValueError, "client_id is longer than 32767 bytes"),
        ({"client_id": "\ud800"}, ValueError, "which UTF-8 cannot carry"),
        ({"tls": True}, TypeError, "expected an ssl.SSLContext"),
        ({"sasl": ("ann", "pw")}, TypeError, "expected a kohort.Sasl"),
        ({"sasl_password": b"pw"}, TypeError, "sasl_password=… is a bytes: expected a str"),
        ({"bootstrap_servers": 9092}, TypeError, "bootstrap_servers=9092 is an int: expected 'host:port'"),
        ({"bootstrap_servers": b"h:1"}, TypeError, "bootstrap_servers=b'h:1' is a bytes"),
        ({"bootstrap_servers": [("h", 1)]}, TypeError, "one of bootstrap_servers=('h', 1) is a tuple"),
        ({"bootstrap_servers": None}, TypeError, "bootstrap_servers=None"),
        ({"bootstrap_servers": []}, ValueError, "bootstrap_servers is empty"),
        ({"bootstrap_servers": "h"}, ValueError, "bootstrap_servers='h': expected HOST:PORT"),
        ({"client.id": "a", "client_id": "b"}, TypeError, "is given 'client_id' twice"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_the_setting_s_name(
    client: Client, settings: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        client(**AT | settings)


@pytest.mark.parametrize(
    ("client", "settings", "kind", "text"),
    [
        (
            kohort.Consumer,
            {"auto_offset_reset": "smallest"},
            ValueError,
            "='smallest': expected earliest",
        ),
        (kohort.Consumer, {"auto_offset_reset": ["earliest"]}, TypeError, "=['earliest'] is a list: expected earliest"),
        (
            kohort.Consumer,
            {"isolation_level": 1},
            ValueError,
            "isolation_level=1: expected read_uncommitted",
        ),
        (
            kohort.Consumer,
            {"group_protocol": "CONSUMER"},
            ValueError,
            "='CONSUMER': expected classic",
        ),
        (kohort.Consumer, {"enable_auto_commit": "false"}, TypeError, "is a str: expected true or false"),
        (kohort.Consumer, {"max_poll_records": 0}, ValueError, "max_poll_records=0: expected a whole number from 1"),
        (kohort.Consumer, {"group_id": 7}, TypeError, "group_id=7 is an int: expected the name of a group"),
        (kohort.Consumer, {"group_id": ""}, ValueError, "group_id='': expected the name of a group"),
        (kohort.Consumer, {"assignors": "range"}, TypeError, "expected a list of assignors"),
        (kohort.Consumer, {"assignors": ["range"]}, TypeError, "'range' is no assignor"),
        (kohort.Consumer, {"assignors": [kohort.RangeAssignor]}, TypeError, "pass objects"),
        (kohort.Consumer, {"listener": print}, TypeError, "expected a kohort.RebalanceListener"),
        (kohort.Consumer, {"value_deserializer": "utf-8"}, TypeError, "expected a function"),
        (kohort.Consumer, {"key_deserializer": kohort.Consumer.poll}, TypeError, "is async: expected a plain function"),
        (kohort.Producer, {"acks": 2}, ValueError, "acks=2: expected all, 1 or 0"),
        (kohort.Producer, {"acks": True}, ValueError, "acks=True: expected all"),
        (kohort.Producer, {"linger_ms": float("nan")}, ValueError, "linger_ms=nan"),
        (kohort.Producer, {"linger_ms": "5"}, TypeError, "expected a number of milliseconds"),
        (kohort.Producer, {"compression_type": "zip"}, ValueError, "='zip': expected none, gzip"),
        (kohort.Producer, {"compression_type": 9}, ValueError, "compression_type=9: expected none"),
        (kohort.Producer, {"partitioner": "murmur2"}, TypeError, "expected a function"),
        (kohort.Producer, {"key_serializer": "utf-8"}, TypeError, "expected a function"),
    ],
)
def test_a_choice_that_does_not_exist_is_refused_with_those_that_do(
    client: Client, settings: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        client(**AT | settings)


def test_a_consumers_topics_are_texts_and_settings_are_keywords() -> None:
    with pytest.raises(TypeError, match=re.escape("settings are keywords, Consumer('topic', **settings)")):
        kohort.Consumer({"bootstrap.servers": "h:1"}, **AT)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not bytes"):
        kohort.Consumer(b"t", **AT)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="topic is empty"):
        kohort.Consumer("", **AT)


def test_kafkas_dotted_names_are_the_names_with_underscores() -> None:
    consumer = kohort.Consumer(
        "t", **{"bootstrap.servers": "h:1", "group.id": "g", "group.protocol": "consumer", "max.poll.records": 7}
    )
    assert (consumer.group_id, consumer._config.group_protocol, consumer._config.max_poll_records) == (
        "g",
        "consumer",
        7,
    )
