"""The server's side of SASL: one exchange of tokens, which ends with the name of a user or fails.

PLAIN is RFC 4616.
"""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest
from typing import NamedTuple, Protocol


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
