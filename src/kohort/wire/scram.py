"""SCRAM (RFC 5802, RFC 7677): the messages of an exchange and the keys that prove a password, for both of its sides.

As in Kafka, names and passwords are UTF-8 without further preparation, and there is no channel binding.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from dataclasses import dataclass, field

DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The digest of each mechanism, by the mechanism's name."""

NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The number of each mechanism in requests about credentials (KIP-554)."""

DEFAULT_MECHANISM = "SCRAM-SHA-512"
"""Of credentials that our tools set."""

MIN_ITERATIONS = 4096
ITERATIONS = 8192
"""Of credentials by default."""

SALT_BYTES = 24
HEADER = "n,,"
"""What a client's first message begins with: it knows no channel binding, and is the user it names."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a broker stores of a password: enough to check a proof and to give one, not enough to make a client's."""

    mechanism: str
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def from_salted(cls, mechanism: str, salted: bytes, salt: bytes, iterations: int) -> Credential:
        """Return the credential of a password that was salted already."""
        digest = DIGESTS[mechanism]
        stored = hashlib.new(digest, _keyed(digest, salted, b"Client Key")).digest()
        return cls(mechanism, salt, stored, _keyed(digest, salted, b"Server Key"), iterations)

    @classmethod
    def from_password(cls, mechanism: str, password: str, salt: bytes, iterations: int) -> Credential:
        return cls.from_salted(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)

    def is_proof(self, proof: bytes, signed: str) -> bool:
        """Whether the client that proves an exchange knows the password."""
        digest = DIGESTS[self.mechanism]
        signature = _keyed(digest, self.stored_key, signed.encode())
        if len(proof) != len(signature):
            return False
        return hmac.compare_digest(hashlib.new(digest, _xor(proof, signature)).digest(), self.stored_key)

    def signature(self, signed: str) -> str:
        """Return the proof that the broker knows the password too, as it is sent."""
        return b64encode(_keyed(DIGESTS[self.mechanism], self.server_key, signed.encode())).decode()


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return a password as it goes into keys; this takes milliseconds on purpose."""
    return hashlib.pbkdf2_hmac(DIGESTS[mechanism], password.encode(), salt, iterations)


def proof(mechanism: str, salted: bytes, signed: str) -> str:
    """Return a client's proof that it knows a password, as it is sent."""
    digest = DIGESTS[mechanism]
    client_key = _keyed(digest, salted, b"Client Key")
    signature = _keyed(digest, hashlib.new(digest, client_key).digest(), signed.encode())
    return b64encode(_xor(client_key, signature)).decode()


def fields(message: str) -> dict[str, str]:
    """Return the attributes of a message by their letters."""
    return dict(part.split("=", 1) for part in message.split(",") if "=" in part)


def escape(name: str) -> str:
    """Return a user name as it stands in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape(text: str) -> str:
    """Return the user name of a message. Raises ValueError."""
    name = text.replace("=2C", ",").replace("=3D", "\0")
    if "=" in name:
        raise ValueError("a user name has = that is not escaped")
    return name.replace("\0", "=")


def bytes_of(text: str) -> bytes:
    """Return what base64 stands for. Raises ValueError."""
    return b64decode(text, validate=True)


def _keyed(digest: str, key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, digest).digest()


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
