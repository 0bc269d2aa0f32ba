"""The logins that a broker offers: what begins when a client names a mechanism of a listener."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from kohort.node.authentication.logins import Login, PlainLogin, ScramLogin
from kohort.node.authentication.scram_credentials import ITERATIONS, SALT_BYTES, ScramCredentials
from kohort.node.configuration.listeners import Listener
from kohort.wire.scram import Credential

NONCE_BYTES = 24


class Authentication:
    """Begins logins by the users that this broker knows."""

    def __init__(self, credentials: ScramCredentials, random_bytes: Callable[[int], bytes]) -> None:
        self._credentials = credentials
        self._random_bytes = random_bytes
        self._secret: bytes | None = None

    def begin(self, listener: Listener, mechanism: str) -> Login:
        """Return a login by one of the listener's mechanisms."""
        if mechanism == "PLAIN":
            return PlainLogin(listener.plain_users)

        def find(user: str) -> Credential:
            return self._credentials.of(user).get(mechanism) or self._of_no_user(user, mechanism)

        return ScramLogin(find, self._random_bytes(NONCE_BYTES))

    def _of_no_user(self, user: str, mechanism: str) -> Credential:
        """Return a credential without a password, whose salt is as constant as that of a user."""
        if self._secret is None:
            self._secret = self._random_bytes(32)
        keys = hmac.digest(self._secret, f"{mechanism}:{user}".encode(), "sha512")
        return Credential(mechanism, keys[:SALT_BYTES], keys, keys, ITERATIONS)
