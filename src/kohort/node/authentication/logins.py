"""The server's side of SASL: one exchange of tokens, which ends with the name of a user or fails.

PLAIN is RFC 4616, SCRAM is RFC 5802.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import NamedTuple, Protocol

from kohort.wire import scram


class LoginFailed(Exception):
    """The client is not who it claims to be, or breaks the rules of the mechanism. The text holds no secret."""


class User(NamedTuple):
    """Who has logged in, and until when its credentials are valid (milliseconds since the epoch), if they expire."""

    name: str
    expires_ms: int | None = None


class Login(Protocol):
    """One exchange. A failed one is not used again."""

    def step(self, token: bytes) -> tuple[bytes, User | None]:
        """Take a client's token; return the answer and, when the exchange is over, the user. Raises LoginFailed."""
        ...


class PlainLogin:
    """A name and a password in one token, checked against the users of a listener."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def step(self, token: bytes) -> tuple[bytes, User | None]:
        parts = token.split(b"\0")
        if len(parts) != 3:
            raise LoginFailed("malformed PLAIN token")
        wanted, name, password = (part.decode("utf-8", "replace") for part in parts)
        expected = self._passwords.get(name)
        # An unknown user takes as long as a wrong password.
        is_right = compare_digest((expected or "").encode(), password.encode()) and expected is not None
        if not is_right or wanted not in ("", name):
            raise LoginFailed("invalid user name or password")
        return b"", User(name)


class ScramLogin:
    """A challenge with a nonce, then the proof that the client knows the password of a stored credential.

    `find` returns the credential of a user, also of one that does not exist: then no proof is right. So a client does
    not learn which users there are.
    """

    def __init__(self, find: Callable[[str], scram.Credential], nonce: bytes) -> None:
        self._find = find
        self._nonce = b64encode(nonce).decode()
        self._challenge: tuple[str, scram.Credential, str, str] | None = None

    def step(self, token: bytes) -> tuple[bytes, User | None]:
        try:
            text = token.decode()
            return self._begin(text) if self._challenge is None else self._end(text)
        except (KeyError, ValueError):  # UnicodeDecodeError, and of base64
            raise LoginFailed("malformed SCRAM message") from None

    def _begin(self, text: str) -> tuple[bytes, User | None]:
        flag, wanted, first = text.split(",", 2)
        given = scram.fields(first)
        name = scram.unescape(given["n"])
        if flag != "n" or not given["r"] or not first.startswith("n="):
            raise LoginFailed("unsupported SCRAM message")
        if wanted and scram.unescape(wanted.removeprefix("a=")) != name:
            raise LoginFailed("a user cannot log in as another one")
        credential = self._find(name)
        nonce = given["r"] + self._nonce
        challenge = f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        last = f"c={b64encode(f'{flag},{wanted},'.encode()).decode()},r={nonce}"
        self._challenge = (name, credential, f"{first},{challenge},{last}", last)
        return challenge.encode(), None

    def _end(self, text: str) -> tuple[bytes, User | None]:
        assert self._challenge is not None, "the challenge comes first"
        name, credential, signed, last = self._challenge
        before, _, proof = text.rpartition(",p=")
        if not compare_digest(before.encode(), last.encode()) or not credential.is_proof(scram.bytes_of(proof), signed):
            raise LoginFailed("invalid user name or password")
        return f"v={credential.signature(signed)}".encode(), User(name)
