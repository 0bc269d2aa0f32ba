"""Signatures of the JSON Web Tokens of OAUTHBEARER, by the public keys of an issuer (a JWKS in a file or at a URL).

The node decides by the claims whether a token is for this broker, and of which user. Tokens without a signature, or
signed with a shared secret, are refused.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kohort.model.extras import install_command
from kohort.model.setting import SettingsError

try:
    import jwt
except ImportError:  # the extra [security] is not installed
    jwt = None

log = logging.getLogger("kohort.broker")

ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""What a key of each type may sign with, unless it names one algorithm itself."""

TIMEOUT_S = 10
RETRY_S = 10.0
"""How long nothing is fetched after the keys were, whatever tokens name a key that is not there."""


class JsonWebKeys:
    """The keys of one issuer. Raises SettingsError for a file that cannot be read, and where a library is missing."""

    def __init__(self, url: str, refresh_ms: int) -> None:
        if jwt is None:
            raise SettingsError(f"OAUTHBEARER needs a library for tokens: {install_command('security')}")
        parts = urlsplit(url)
        if parts.scheme not in ("file", "http", "https"):
            raise SettingsError(f"sasl.oauthbearer.jwks.endpoint.url={url}: expected https://… or file:///PATH")
        self._url = url
        self._path = url2pathname(parts.path) if parts.scheme == "file" else None
        self._refresh_s = refresh_ms / 1000
        self._keys: dict[str | None, Any] = {}
        self._stamp: tuple[int, int] | None = None
        self._fetched_s = -RETRY_S
        self._is_wanted = asyncio.Event()
        if self._path is not None:
            try:
                self._read()
            except (OSError, ValueError) as error:
                raise SettingsError(f"sasl.oauthbearer.jwks.endpoint.url={url}: {_why(error)}") from None

    def claims(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token. Raises ValueError where its signature is not that of a known key."""
        if self._path is not None:
            self._renew()
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError as error:
            raise ValueError("the token is no JSON Web Token") from error
        key = self._keys.get(header.get("kid"))
        if key is None and "kid" not in header and len(self._keys) == 1:
            (key,) = self._keys.values()
        if key is None:
            self._is_wanted.set()
            raise ValueError("the token is signed with a key that is not known here")
        named, verified = key
        try:
            claims = jwt.decode(token, verified, algorithms=named, options=_SIGNATURE_ONLY)
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            raise ValueError("the token's signature is wrong") from error
        return dict(claims)

    async def refresh_until_cancelled(self) -> None:
        """Fetch the keys of a URL, again at the interval, and when a token names one that is missing; never ends."""
        while self._path is None:
            await asyncio.sleep(max(0.0, self._fetched_s + RETRY_S - time.monotonic()))
            self._is_wanted.clear()
            self._fetched_s = time.monotonic()
            try:
                self._replace_keys(await asyncio.to_thread(_fetch, self._url))
            except (OSError, ValueError) as error:
                log.error("cannot fetch the keys of tokens from %s: %s", self._url, _why(error))
                wait_s = min(RETRY_S, self._refresh_s)
            else:
                wait_s = self._refresh_s
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_wanted.wait(), wait_s)

    def _renew(self) -> None:
        assert self._path is not None, "the keys are in a file"
        try:
            if _stamp(self._path) != self._stamp:
                self._read()
                log.info("keys of tokens are read again: %s", self._path)
        except (OSError, ValueError) as error:
            log.error("keys of tokens are not read again, the old ones stay: %s: %s", self._path, _why(error))

    def _read(self) -> None:
        assert self._path is not None, "the keys are in a file"
        self._stamp = _stamp(self._path)
        with open(self._path, "rb") as file:
            self._replace_keys(file.read())

    def _replace_keys(self, text: bytes) -> None:
        """Use the keys of a JWKS. Raises ValueError."""
        document = json.loads(text)
        keys: dict[str | None, Any] = {}
        for each in document.get("keys", ()) if isinstance(document, dict) else ():
            allowed = ALGORITHMS.get(each.get("kty"), ())
            named = tuple(name for name in allowed if each.get("alg", name) == name)
            if named and each.get("use", "sig") == "sig":
                try:
                    keys[each.get("kid")] = (named, jwt.PyJWK.from_dict(each, algorithm=named[0]).key)
                except jwt.PyJWTError as error:
                    raise ValueError(f"key {each.get('kid')!r}: {error}") from None
        if not keys:
            raise ValueError("there is no public key in it that signs tokens (RSA, EC or OKP)")
        self._keys = keys


_SIGNATURE_ONLY = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}


def jwks(key: Any) -> dict[str, Any]:
    """Return a JWKS with the public part of a key on the curve P-256."""
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {"keys": [{**public, "kid": "test", "use": "sig", "alg": "ES256"}]}


def signed_token(key: Any, claims: Mapping[str, Any]) -> str:
    """Return a token that such a key signs."""
    made: str = jwt.encode(dict(claims), key, algorithm="ES256", headers={"kid": "test"})
    return made


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        content: bytes = answer.read(1 << 20)
    return content


def _stamp(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_ino


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(getattr(error, "reason", None) or error)
