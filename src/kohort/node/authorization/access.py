"""Questions about the sender of a request: may it do what a check names?

A refusal is logged once, and again after the rules have changed.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, Protocol

from kohort.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from kohort.model.errors import KafkaError
from kohort.model.principal import Principal
from kohort.node.authorization.acls import Acls
from kohort.node.authorization.api_checks import SUPPORTED, Check, Guard
from kohort.node.authorization.authorizer import Authorizer

log = logging.getLogger("kohort.node")

MOST_LOGGED = 10_000
"""Refusals that are not logged again; beyond it all are forgotten."""


class Sender(Protocol):
    """What a question takes of a connection."""

    @property
    def principal(self) -> Principal:
        """Who its client is."""
        ...

    @property
    def peer_host(self) -> str:
        """The client's address."""
        ...


class Access:
    """Answers for the sender of a request; without an authorizer everything is allowed."""

    def __init__(self, acls: Acls, authorizer: Authorizer | None) -> None:
        self.authorizer = authorizer
        self._logged: set[tuple[Principal, Check, str]] = set()
        acls.on_change.append(lambda _: self._logged.clear())

    def allows(self, sender: Sender, check: Check, name: str = CLUSTER_NAME) -> bool:
        """Whether the sender may do to a resource what a check names."""
        authorizer = self.authorizer
        if authorizer is None:
            return True
        principal, host = sender.principal, sender.peer_host
        if ":" in host:
            host = java_address(host)
        if check.is_some:
            return authorizer.allows_some(principal, host, check.operation, check.resource)
        return authorizer.allows(principal, host, check.operation, check.resource, name)

    def require(self, sender: Sender, check: Check, name: str = CLUSTER_NAME) -> None:
        """Raise KafkaError, with the error of the resource, where the sender may not."""
        if not self.allows(sender, check, name):
            raise self.refusal(sender, check, name)

    def require_all(self, sender: Sender, guards: tuple[Guard, ...], message: Any, version: int) -> None:
        """Raise KafkaError where the sender may not make a request."""
        for guard in guards:
            first, *others = guard.any_of
            for name in guard.names(message, version):
                if not self.allows(sender, first, name) and not any(self.allows(sender, each, name) for each in others):
                    raise self.refusal(sender, first, name)

    def refusal(self, sender: Sender, check: Check, name: str) -> KafkaError:
        """Return the error of a refusal, and log it."""
        text = check.refusal(sender.principal, sender.peer_host, name)
        refused = sender.principal, check, name
        if refused not in self._logged:
            if len(self._logged) >= MOST_LOGGED:
                self._logged.clear()
            self._logged.add(refused)
            log.info("refused: %s", text)
        return KafkaError(check.error, text)

    def operations(self, sender: Sender, kind: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the operations that the sender may do to a resource, as a bit field (KIP-430)."""
        return sum(1 << each for each in SUPPORTED[kind] if self._allows(sender, each, kind, name))

    def _allows(self, sender: Sender, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        if self.authorizer is None:
            return True
        return self.authorizer.allows(sender.principal, java_address(sender.peer_host), operation, kind, name)


@lru_cache(4096)
def java_address(host: str) -> str:
    """Return an address as Java writes it, and so the rules of Kafka: IPv6 in full, without leading zeros."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    text = ":".join(f"{high << 8 | low:x}" for high, low in zip(address.packed[::2], address.packed[1::2], strict=True))
    return text if address.scope_id is None else f"{text}%{address.scope_id}"
