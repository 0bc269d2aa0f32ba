"""The SCRAM credentials of users, as the metadata log has them: salt, keys and iterations, never a password."""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any

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
