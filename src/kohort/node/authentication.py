"""The logins that a broker offers: what begins when a client names a mechanism of a listener, and how each proceeds."""

from __future__ import annotations

import hmac
import logging
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hmac import compare_digest
from typing import Any, NamedTuple, Protocol

from kohort.node.configuration.listeners import Listener
from kohort.node.timers import NodeClock
from kohort.wire import scram
from kohort.wire.scram import DIGESTS, ITERATIONS, SALT_BYTES, Credential

log = logging.getLogger("kohort.node")

Entry = dict[str, Any]


class ScramCredentials:
    """The credentials by user and mechanism."""

    def __init__(self) -> None:
        self._by_user: dict[str, dict[str, Credential]] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield the users, sorted."""
        return iter(sorted(self._by_user))

    def of(self, user: str) -> Mapping[str, Credential]:
        """Return a user's credentials by mechanism."""
        return self._by_user.get(user, {})

    def apply(self, entry: Entry) -> None:
        """Fold one entry of the metadata log."""
        user, mechanism = entry["user"], entry["mechanism"]
        own = self._by_user.setdefault(user, {})
        if entry["type"] == "scram_credential":
            salt, stored, server = (b64decode(entry[name]) for name in ("salt", "stored_key", "server_key"))
            own[mechanism] = Credential(mechanism, salt, stored, server, entry["iterations"])
        else:
            own.pop(mechanism, None)
        if not own:
            del self._by_user[user]

    def entries(self) -> Iterator[Entry]:
        """Yield entries that give these credentials."""
        for user in self:
            for _, credential in sorted(self._by_user[user].items()):
                yield credential_entry(user, credential)

    def missing(self, passwords: Mapping[str, str], random_bytes: Callable[[int], bytes]) -> list[Entry]:
        """Return entries of the credentials that users lack; a stored one stays, and is logged if it is another."""
        found = []
        for user, password in passwords.items():
            for mechanism in DIGESTS:
                stored = self.of(user).get(mechanism)
                if stored is None:
                    made = Credential.from_password(mechanism, password, random_bytes(SALT_BYTES), ITERATIONS)
                    found.append(credential_entry(user, made))
                elif stored != Credential.from_password(mechanism, password, stored.salt, stored.iterations):
                    log.warning(
                        "user %s has another password for %s than kohort.sasl.scram.users has: the stored one stays",
                        user, mechanism,
                    )  # fmt: skip
        return found


def credential_entry(user: str, credential: Credential) -> Entry:
    """Return the entry that gives a user a credential."""
    return {
        "type": "scram_credential",
        "user": user,
        "mechanism": credential.mechanism,
        "salt": b64encode(credential.salt).decode(),
        "stored_key": b64encode(credential.stored_key).decode(),
        "server_key": b64encode(credential.server_key).decode(),
        "iterations": credential.iterations,
    }


def removal_entry(user: str, mechanism: str) -> Entry:
    """Return the entry that takes a credential from a user."""
    return {"type": "no_scram_credential", "user": user, "mechanism": mechanism}


class LoginFailed(Exception):
    """The client is not who it claims to be, or breaks the rules of the mechanism. The text has no secret."""


Claims = Mapping[str, Any]
"""What a token states, by the names of JSON."""


class User(NamedTuple):
    """Who has logged in, and until when its credentials are valid (milliseconds since the epoch), if they expire."""

    name: str
    expires_ms: int | None = None


class Login(Protocol):
    """One exchange. A failed one is not used again."""

    def step(self, token: bytes) -> tuple[bytes, User | None]:
        """Take a client's token; return the answer and, when the exchange is over, the user. Raises LoginFailed."""


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


_BEARER = re.compile(r"n,(?:a=([^,]*))?,\x01(?:[^\x01]+\x01)*?auth=Bearer +([^\x01]+)\x01(?:[^\x01]+\x01)*\x01", re.I)
_REFUSED = b'{"status":"invalid_token"}'


class BearerLogin:
    """A token, whose signature `claims_of` verifies (it raises ValueError), and of whose claims `user_of` makes a user.

    A refusal is sent as JSON, which the client acknowledges before the login fails.
    """

    def __init__(self, claims_of: Callable[[str], Claims], user_of: Callable[[Claims], User]) -> None:
        self._claims_of = claims_of
        self._user_of = user_of
        self._refusal: LoginFailed | None = None

    def step(self, token: bytes) -> tuple[bytes, User | None]:
        if self._refusal is not None:
            raise self._refusal
        try:
            found = _BEARER.fullmatch(token.decode())
            if found is None:
                raise LoginFailed("malformed OAUTHBEARER message")
            user = self._user_of(self._claims_of(found[2]))
            if found[1] and scram.unescape(found[1]) != user.name:
                raise LoginFailed("a user cannot log in as another one")
        except ValueError as error:
            self._refusal = LoginFailed(str(error))
        except LoginFailed as error:
            self._refusal = error
        else:
            return b"", user
        return _REFUSED, None


class ClaimRules:
    """What the claims of a token must be: who issued it, for which audiences, when, and which of them is the user."""

    def __init__(self, issuer: str | None, audiences: Sequence[str], skew_ms: int, user_claim: str) -> None:
        self._issuer = issuer
        self._audiences = frozenset(audiences)
        self._skew_ms = skew_ms
        self._user_claim = user_claim

    def user(self, claims: Claims, now_ms: int) -> User:
        """Return the user of a token whose signature is right. Raises LoginFailed."""
        expires_ms = _time_ms(claims, "exp")
        if expires_ms is None:
            raise LoginFailed("the token never expires (it has no claim exp)")
        if now_ms >= expires_ms + self._skew_ms:
            raise LoginFailed("the token has expired")
        for name in ("nbf", "iat"):
            if (since_ms := _time_ms(claims, name)) is not None and now_ms < since_ms - self._skew_ms:
                raise LoginFailed(f"the token is not valid yet (claim {name})")
        if self._issuer is not None and claims.get("iss") != self._issuer:
            raise LoginFailed("the token is from another issuer")
        stated = claims.get("aud")
        audiences = {each for each in (stated if isinstance(stated, list) else [stated]) if isinstance(each, str)}
        if self._audiences and not self._audiences & audiences:
            raise LoginFailed("the token is for another audience")
        user = claims.get(self._user_claim)
        if not isinstance(user, str) or not user.strip():
            raise LoginFailed(f"the token names no user (claim {self._user_claim})")
        return User(user, expires_ms + self._skew_ms)


def _time_ms(claims: Claims, name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise LoginFailed(f"the token's claim {name} is no time")
    return int(value * 1000)


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
