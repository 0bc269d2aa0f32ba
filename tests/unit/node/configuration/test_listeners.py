from __future__ import annotations

import pytest

from kohort.model.setting import SettingsError
from kohort.node.configuration.config import Config
from kohort.node.configuration.listeners import Listener, listeners_of


def listeners(text: str, **settings: str) -> tuple[Listener, ...]:
    own = {name.replace("__", "."): value for name, value in settings.items()}
    return listeners_of(Config({"listeners": text, **own}))


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("PLAINTEXT://127.0.0.1:9092", "PLAINTEXT", ("127.0.0.1", 9092)),
        ("SASL_PLAINTEXT://broker.example:9093", "SASL_PLAINTEXT", ("broker.example", 9093)),
        ("ssl://:9092", "SSL", ("", 9092)),
        ("broker:0", "PLAINTEXT", ("broker", 0)),
        ("SASL_SSL://[::1]:9092", "SASL_SSL", ("::1", 9092)),
    ],
)
def test_a_listener_is_a_name_with_host_and_port(text: str, name: str, address: tuple[str, int]) -> None:
    (listener,) = listeners(text)
    assert (listener.name, listener.address, listener.advertised) == (name, address, address)


@pytest.mark.parametrize("text", ["h", "h:port", "h:65536", "SSL://", "://h:1", "::1:9092"])
def test_a_listener_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="expected NAME://HOST:PORT"):
        listeners(text)


def test_a_name_of_ones_own_has_the_protocol_that_the_map_gives_it() -> None:
    inside, outside = listeners(
        "INSIDE://:9092,OUTSIDE://:9093",
        listener__security__protocol__map="INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL",
        advertised__listeners="OUTSIDE://broker.example:443",
    )
    assert (inside.has_tls, inside.has_sasl) == (False, False)
    assert (outside.has_tls, outside.has_sasl) == (True, True)
    assert outside.advertised == ("broker.example", 443)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"listeners": "A://:1"}, "listeners names A, which is no security protocol"),
        ({"listeners": "SSL://:1,SSL://:2"}, "listeners names SSL twice"),
        ({"listeners": " "}, "listeners is empty"),
        ({"listener.security.protocol.map": "A:TLS"}, "listener.security.protocol.map='A:TLS': expected NAME:PROTOCOL"),
        ({"advertised.listeners": "SSL://h:1"}, "advertised.listeners names SSL, which listeners does not"),
        ({"listener.name.sasl_ssl.ssl.client.auth": "none"}, "is for a listener 'sasl_ssl', and there is none"),
        ({"listener.name.plaintext.ssl.client.aut": "none"}, "did you mean 'ssl.client.auth'"),
        ({"sasl.jaas.config": "x"}, "needs a listener and a mechanism"),
        ({"listeners": "SASL_SSL://:1", "sasl.enabled.mechanisms": "PLAIN"}, "SASL_SSL offers PLAIN and has no users"),
        ({"listeners": "SASL_SSL://:1", "sasl.enabled.mechanisms": "OAUTHBEARER"}, "OAUTHBEARER and has no keys"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        listeners_of(Config(settings))


def test_settings_of_a_listener_and_of_a_mechanism_go_before_those_of_the_broker() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="a\\"b" user_bob="c";'
    config = Config(
        {
            "listeners": "SASL_SSL://:1,SSL://:2",
            "kohort.sasl.plain.users": "eve:e",
            "ssl.client.auth": "required",
            "connections.max.reauth.ms": "9",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
            "listener.name.sasl_ssl.plain.connections.max.reauth.ms": "7",
            "listener.name.sasl_ssl.connections.max.reauth.ms": "8",
        }
    )
    sasl, tls = listeners_of(config)
    assert sasl.plain_users == {"ann": 'a"b', "bob": "c"}
    assert tls.plain_users == {"eve": "e"}
    lifetimes = [sasl.settings.of_mechanism(name).connections_max_reauth_ms for name in ("PLAIN", "SCRAM-SHA-256")]
    assert lifetimes == [7, 8]
    assert tls.settings.connections_max_reauth_ms == 9
    # KIP-684: a listener with a login asks for certificates only by a setting of its own.
    assert (sasl.client_auth, tls.client_auth) == ("none", "required")


def test_users_alone_make_every_listener_require_a_login_unless_one_does() -> None:
    users = {"kohort.sasl.plain.users": "ann:secret"}
    assert [each.protocol for each in listeners("PLAINTEXT://:1,SSL://:2", **users)] == ["SASL_PLAINTEXT", "SASL_SSL"]
    assert [each.protocol for each in listeners("PLAINTEXT://:1,SASL_SSL://:2", **users)] == ["PLAINTEXT", "SASL_SSL"]
