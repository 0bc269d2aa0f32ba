"""SASL authentication of a client, in SaslHandshake and SaslAuthenticate: PLAIN, SCRAM and OAUTHBEARER.

SCRAM is RFC 5802 with the broker's proof checked, so that a client accepts only a broker that knows its password.
OAUTHBEARER is RFC 7628: the credentials include a function that returns a token for each connection.
"""

from __future__ import annotations

import hmac
import inspect
import math
import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.wire import scram
from kohort.wire.message import Request
from kohort.wire.messages import SaslAuthenticateRequest, SaslHandshakeRequest

ResponseT = TypeVar("ResponseT")

REAUTHENTICATION_SHARE = 0.85
"""After which share of a session's lifetime its connection authenticates again: Java's client does so from here on."""

_MAX_ITERATIONS = 1_000_000


@dataclass(frozen=True, slots=True)
class Sasl:
    """Credentials; `mechanism` is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, or OAUTHBEARER with a `token`.

    `token` returns a token, or awaits one; it is called for each new connection, and again before its session ends.
    Raises TypeError, ValueError.
    """

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    token: Callable[[], str | Awaitable[str]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        known = ("PLAIN", *scram.DIGESTS, "OAUTHBEARER")
        if self.mechanism not in known:
            raise ValueError(f"SASL mechanism {self.mechanism!r} is not one of {', '.join(known)}")
        for name in ("username", "password"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"Sasl: {name} is {type(getattr(self, name)).__name__}: expected a str")
        if self.token is not None and not callable(self.token):
            raise TypeError(f"Sasl: token is {type(self.token).__name__}: expected a function that returns a token")
        if (self.mechanism == "OAUTHBEARER") != (self.token is not None):
            raise ValueError("OAUTHBEARER needs a function that returns a token, and no other mechanism takes one")


class Caller(Protocol):
    """The connection that `authenticate` uses."""

    address: str

    async def call(self, request: Request[ResponseT], *, highest: int | None = None) -> ResponseT:
        """Send a request and return its answer."""


async def authenticate(connection: Caller, sasl: Sasl) -> float:
    """Authenticate a connection that is fresh, or whose session ends, and return in how many seconds to do so again.

    That is before the broker's `connections.max.reauth.ms` is over or the token expires (KIP-368); without a limit it
    is infinite. Raises `KafkaError` UNSUPPORTED_SASL_MECHANISM or SASL_AUTHENTICATION_FAILED.
    """
    offer = await connection.call(SaslHandshakeRequest(mechanism=sasl.mechanism), highest=1)
    if offer.error_code:
        text = f"{connection.address} offers SASL {', '.join(offer.mechanisms) or 'nothing'}, not {sasl.mechanism}"
        raise KafkaError(error_for(offer.error_code), text)

    lifetime_ms = 0

    async def exchange(token: bytes) -> bytes:
        nonlocal lifetime_ms
        answer = await connection.call(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            code = error_for(answer.error_code)
            why = (answer.error_message or code.text).rstrip(".")
            if sasl.mechanism == "OAUTHBEARER":
                raise KafkaError(code, f"{connection.address} refused the token ({why}): has it expired?")
            text = f"{connection.address} refused user {sasl.username!r} ({why}): check the name and the password"
            raise KafkaError(code, f"{text}, and that the user has one for {sasl.mechanism}")
        lifetime_ms = answer.session_lifetime_ms
        return bytes(answer.auth_bytes)

    if sasl.token is not None:
        await _bearer(exchange, sasl.token)
    elif sasl.mechanism == "PLAIN":
        await exchange(b"\0".join([b"", sasl.username.encode(), sasl.password.encode()]))
    else:
        await _scram(exchange, sasl, secrets.token_urlsafe(24))
    return REAUTHENTICATION_SHARE * lifetime_ms / 1000 if lifetime_ms else math.inf


async def _bearer(exchange: Callable[[bytes], Awaitable[bytes]], token: Callable[[], str | Awaitable[str]]) -> None:
    made = token()
    bearer = await made if inspect.isawaitable(made) else made
    if await exchange(f"n,,\1auth=Bearer {bearer}\1\1".encode()):
        # The broker sends the cause as JSON, and once more as an error when the client has acknowledged it.
        await exchange(b"\1")
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker refused the token and then accepted it")


async def _scram(exchange: Callable[[bytes], Awaitable[bytes]], sasl: Sasl, nonce: str) -> None:
    mechanism = sasl.mechanism
    first = f"n={scram.escape(sasl.username)},r={nonce}"
    sent = await exchange(f"{scram.HEADER}{first}".encode())
    try:
        challenge = sent.decode()
        given = scram.fields(challenge)
        salt, iterations, whole_nonce = scram.bytes_of(given["s"]), int(given["i"]), given["r"]
    except (KeyError, ValueError) as cause:
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker's SCRAM challenge is malformed") from cause
    if not whole_nonce.startswith(nonce) or not scram.MIN_ITERATIONS <= iterations <= _MAX_ITERATIONS:
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker's SCRAM challenge is not an answer to ours")
    salted = scram.salted_password(mechanism, sasl.password, salt, iterations)
    last = f"c={b64encode(scram.HEADER.encode()).decode()},r={whole_nonce}"
    signed = f"{first},{challenge},{last}"
    answer = await exchange(f"{last},p={scram.proof(mechanism, salted, signed)}".encode())
    expected = scram.Credential.from_salted(mechanism, salted, salt, iterations).signature(signed)
    if not hmac.compare_digest(answer.removeprefix(b"v=").split(b",")[0], expected.encode()):
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker does not know this user's password either")
