"""Targets that read text: JSON, settings, rights, logins and their tokens."""

from __future__ import annotations

import asyncio
import json
import tomllib
from argparse import ArgumentTypeError
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from kohort.broker.json_web_tokens import JsonWebKeys
from kohort.cli.acls import operations, principal
from kohort.cli.group_state.group_events import parsed_event
from kohort.cli.terminal.record_lines import NotARecord, json_line
from kohort.gateway.gateway_settings import read_settings
from kohort.gateway.server.instance_links import LinkRefused, _read_greeting
from kohort.gateway.server.order_topic import UnreadableOrder, read_order
from kohort.model.errors import KafkaError
from kohort.model.setting import SettingsError
from kohort.net.sasl import Sasl, authenticate
from kohort.net.settings_files import read_properties
from kohort.node.authentication import BearerLogin, ClaimRules, LoginFailed, PlainLogin, ScramLogin
from kohort.node.configuration.config import Config
from kohort.node.configuration.listeners import listeners_of
from kohort.node.configuration.principal_mapping import PrincipalMapping
from kohort.spark.options.offset_choice import _by_partition
from kohort.wire import scram
from kohort.wire.jaas import jaas_options
from kohort.wire.messages import SaslAuthenticateResponse, SaslHandshakeResponse


def json_documents(content: bytes) -> None:
    """Read JSON as an order, an event, a greeting, a record, and offsets."""
    key, _, value = content.partition(b"\0")
    with suppress(UnreadableOrder):
        read_order(key, value)
    with suppress(LinkRefused):
        _read_greeting(content)
    with suppress(NotARecord):
        json_line(content)
    parsed_event(content)
    with suppress(ValueError):
        _by_partition("startingOffsets")(content.decode())


def some_json_documents() -> Iterator[bytes]:
    yield b'["drained","group","member"]\0{"at_ms":5,"reason":"x"}'
    yield b'{"kohort_gateway":1,"instance":"a","cluster":"b"}'
    yield b'{"key":"a","value":{"base64":"YQ=="},"headers":[["n","v"]],"partition":1,"timestamp":5}'
    yield b'{"orders":{"0":5,"1":-2}}'
    yield b'{"at_ms":5,"event":"round_opened"}'


def settings(content: bytes) -> None:
    """Read settings of brokers, listeners, logins and gateways."""
    with suppress(UnicodeDecodeError):
        text = content.decode()
        with suppress(ValueError):  # SettingsError is one
            listeners_of(Config(read_properties(text)))
        with suppress(ValueError):
            PrincipalMapping(text).name("CN=ann,OU=unit,O=org")
        for _ in jaas_options(text):
            pass
        with suppress(tomllib.TOMLDecodeError, SettingsError):
            read_settings(tomllib.loads(text))


def some_settings() -> Iterator[bytes]:
    yield b"listeners=A://:9092,SASL_SSL://[::1]:9093\nlistener.security.protocol.map=A:PLAINTEXT\nnum.partitions=3\n"
    yield b'log.retention.ms=-1\\\n0\nsuper.users=User:a;User:b\nlistener.name.a.plain.sasl.jaas.config=x user_a="b";'
    yield b"RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L,DEFAULT"
    yield b'org.apache.Plain required username="a\\"b" password=\'c\' user_a="x";'
    yield b'bootstrap = "a:1"\nmode = "park"\n[[policies]]\ngroups = "a*"\ntreatment = "park"\n'


def rights(content: bytes) -> None:
    """Read the text of principals and operations of rules."""
    text = content.decode(errors="replace")
    for read in (principal, operations):
        with suppress(ArgumentTypeError):
            read(text)


def some_rights() -> Iterator[bytes]:
    yield b"User:ann"
    yield b"read, Describe_Configs,all"


def logins(content: bytes) -> None:
    """Answer the tokens of a client by each mechanism, two after each other, separated by 0xff."""
    first, _, second = content.partition(b"\xff")
    credential = scram.Credential("SCRAM-SHA-256", b"salt", bytes(32), bytes(32), 4096)
    rules = ClaimRules("issuer", ("kohort",), 0, "sub")
    for login in (
        PlainLogin({"ann": "secret"}),
        ScramLogin(lambda _: credential, b"nonce"),
        BearerLogin(lambda token: _keys().claims(token), lambda claims: rules.user(claims, 1000)),
    ):
        with suppress(LoginFailed):
            login.step(first)
            login.step(second)
    with suppress(LoginFailed, ValueError, RecursionError):
        claims = json.loads(content)
        if isinstance(claims, dict):
            rules.user(claims, 1000)
    with suppress(KafkaError):
        asyncio.run(authenticate(_Broker([first, second]), Sasl("SCRAM-SHA-256", "ann", "secret")))


@cache
def _keys() -> JsonWebKeys:
    """Return one key on the curve P-256, the base point, whose private key is 1."""
    x = bytes.fromhex("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296")
    y = bytes.fromhex("4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5")
    number = [urlsafe_b64encode(each).rstrip(b"=").decode() for each in (x, y)]
    key = {"kty": "EC", "crv": "P-256", "x": number[0], "y": number[1], "kid": "test", "alg": "ES256"}
    with TemporaryDirectory() as folder:
        path = Path(folder, "keys.json")
        path.write_text(json.dumps({"keys": [key]}))
        keys = JsonWebKeys(path.as_uri(), 1000)
    keys._renew = lambda: None  # type: ignore[method-assign] - the file is gone
    return keys


class _Broker:
    """The other end of a client's login, which sends given tokens."""

    address = "broker:9092"

    def __init__(self, tokens: list[bytes]) -> None:
        self._tokens = tokens[::-1]

    async def call(self, _: object, *, highest: int | None = None) -> object:
        if highest is not None:
            return SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"])
        return SaslAuthenticateResponse(auth_bytes=self._tokens.pop() if self._tokens else b"")


def some_logins() -> Iterator[bytes]:
    yield b"\0ann\0secret"
    yield b"n,,n=ann,r=abc\xffc=biws,r=abcbm9uY2U=,p=" + b64encode(bytes(32))
    header = urlsafe_b64encode(b'{"alg":"ES256","kid":"test"}').rstrip(b"=")
    claims = urlsafe_b64encode(b'{"sub":"ann","exp":5,"aud":["kohort"],"iss":"issuer"}').rstrip(b"=")
    yield b"n,,\1auth=Bearer " + header + b"." + claims + b"." + urlsafe_b64encode(bytes(64)) + b"\1\1\xff\1"
    yield b'{"sub":"ann","exp":5e9,"aud":["kohort"],"iss":"issuer","nbf":0.5}'
    yield b"r=abc,s=c2FsdA==,i=4096\xffv=abc"
