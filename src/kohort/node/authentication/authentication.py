"""The logins that a broker offers: what begins when a client names a mechanism of a listener."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from kohort.node.authentication.logins import BearerLogin, ClaimRules, Claims, Login, PlainLogin, ScramLogin
from kohort.node.authentication.scram_credentials import ScramCredentials
from kohort.node.configuration.listeners import Listener
from kohort.node.timers import NodeClock
from kohort.wire.scram import ITERATIONS, SALT_BYTES, Credential

NONCE_BYTES = 24


ClaimsOf = Callable[[str], Claims]
"""Returns the claims of a token whose signature is right. Raises ValueError."""

_NO_KEYS: Mapping[str, ClaimsOf] = {}


class Authentication:
    """Begins logins by the users that this broker knows. `claims` verify tokens, by the name of the listener."""

    def __init__(
        self,
        credentials: ScramCredentials,
        random_bytes: Callable[[int], bytes],
        clock: NodeClock,
        claims: Mapping[str, ClaimsOf] = _NO_KEYS,
    ) -> None:
        self._credentials = credentials
        self._random_bytes = random_bytes
        self._clock = clock
        self._claims = claims
        self._secret: bytes | None = None

    def _bearer(self, listener: Listener) -> Login:
        settings = listener.bearer
        rules = ClaimRules(
            settings.sasl_oauthbearer_expected_issuer,
            settings.sasl_oauthbearer_expected_audience or (),
            1000 * settings.sasl_oauthbearer_clock_skew_seconds,
            settings.sasl_oauthbearer_sub_claim_name,
        )
        return BearerLogin(self._claims[listener.name], lambda claims: rules.user(claims, self._clock.now_ms))

    def begin(self, listener: Listener, mechanism: str) -> Login:
        """Return a login by one of the listener's mechanisms."""
        if mechanism == "PLAIN":
            return PlainLogin(listener.plain_users)
        if mechanism == "OAUTHBEARER":
            return self._bearer(listener)

        def find(user: str) -> Credential:
            return self._credentials.of(user).get(mechanism) or self._of_no_user(user, mechanism)

        return ScramLogin(find, self._random_bytes(NONCE_BYTES))

    def _of_no_user(self, user: str, mechanism: str) -> Credential:
        """Return a credential without a password, whose salt is as constant as that of a user."""
        if self._secret is None:
            self._secret = self._random_bytes(32)
        keys = hmac.digest(self._secret, f"{mechanism}:{user}".encode(), "sha512")
        return Credential(mechanism, keys[:SALT_BYTES], keys, keys, ITERATIONS)
