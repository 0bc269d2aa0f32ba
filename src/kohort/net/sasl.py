"""SASL authentication of a client, in SaslHandshake and SaslAuthenticate: PLAIN, SCRAM and OAUTHBEARER.

SCRAM is RFC 5802 with the broker's proof checked, so that a client accepts only a broker that knows its password.
OAUTHBEARER is RFC 7628: the credentials include a function that returns a token for each connection.
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import math
import secrets
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.wire.message import Request
from kohort.wire.messages import SaslAuthenticateRequest, SaslHandshakeRequest

ResponseT = TypeVar("ResponseT")

_DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
REAUTHENTICATION_SHARE = 0.85
"""After which share of a session's lifetime its connection authenticates again: Java's client does so from here on."""

_MIN_ITERATIONS, _MAX_ITERATIONS = 4096, 1_000_000


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
        known = ("PLAIN", *_DIGESTS, "OAUTHBEARER")
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
        ...


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
    digest = _DIGESTS[sasl.mechanism]
    name = sasl.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    challenge = (await exchange(f"n,,{first}".encode())).decode()
    fields = dict(part.split("=", 1) for part in challenge.split(",") if "=" in part)
    try:
        salt, iterations, whole_nonce = b64decode(fields["s"]), int(fields["i"]), fields["r"]
    except (KeyError, ValueError) as cause:
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker's SCRAM challenge is malformed") from cause
    if not whole_nonce.startswith(nonce) or not _MIN_ITERATIONS <= iterations <= _MAX_ITERATIONS:
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker's SCRAM challenge is not an answer to ours")
    salted = hashlib.pbkdf2_hmac(digest, sasl.password.encode(), salt, iterations)

    def keyed(key: bytes, text: bytes) -> bytes:
        return hmac.new(key, text, digest).digest()

    client_key = keyed(salted, b"Client Key")
    last = f"c=biws,r={whole_nonce}"
    signed = f"{first},{challenge},{last}".encode()
    signature = keyed(hashlib.new(digest, client_key).digest(), signed)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    verdict = (await exchange(f"{last},p={b64encode(proof).decode()}".encode())).decode()
    expected = b64encode(keyed(keyed(salted, b"Server Key"), signed)).decode()
    if not hmac.compare_digest(verdict.removeprefix("v=").split(",")[0], expected):
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker does not know this user's password either")
