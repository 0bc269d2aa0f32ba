"""Questions about the sender of a request: may it do what a check names?

A refusal is logged once, and again after the rules have changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, Protocol

from kohort.model.acl import CLUSTER_NAME, AclOperation, Principal, ResourceType
from kohort.model.errors import KafkaError
from kohort.model.ids import LONGEST_CACHED_NAME
from kohort.node.authorization.api_checks import SUPPORTED, Check, Guard
from kohort.node.authorization.authorizer import Acls, Authorizer

log = logging.getLogger("kohort.node")

LONGEST_PASSED = 16 << 10
"""How long the names of a request are together that a connection remembers as allowed."""

MOST_LOGGED = 10_000
"""Refusals that are not logged again; beyond it all are forgotten."""


class Sender(Protocol):
    """What a question takes of a connection."""

    @property
    def principal(self) -> Principal:
        """Who its client is."""

    @property
    def peer_host(self) -> str:
        """The client's address."""


class Requester(Sender, Protocol):
    """What a guard takes of a connection."""

    passed: dict[Guard, tuple[object, Principal, Iterable[str]]]
    """What its guards have let through last: by which rules, for which client and names."""


class Access:
    """Answers for the sender of a request; without an authorizer everything is allowed."""

    def __init__(self, acls: Acls, authorizer: Authorizer | None) -> None:
        self.authorizer = authorizer
        self._logged: set[tuple[Principal, Check, str]] = set()
        self._rules = object()
        """Another one after each change of rules."""
        acls.on_change.append(self._forget)

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

    def require_all(self, sender: Requester, guards: tuple[Guard, ...], message: Any, version: int) -> None:
        """Raise KafkaError where the sender may not make a request.

        What passed last on a connection is remembered: a heartbeat asks the same question thousands of times.
        """
        for guard in guards:
            names = guard.names(message, version)
            passed = sender.passed.get(guard)
            if passed is not None and passed[0] is self._rules and passed[1] is sender.principal and passed[2] == names:
                continue
            for name in names:
                if not any(self.allows(sender, check, name) for check in guard.any_of):
                    raise self.refusal(sender, guard.any_of[0], name)
            if sum(map(len, names)) <= LONGEST_PASSED:
                sender.passed[guard] = self._rules, sender.principal, names

    def _forget(self, _kinds: frozenset[ResourceType]) -> None:
        self._logged.clear()
        self._rules = object()

    def refusal(self, sender: Sender, check: Check, name: str) -> KafkaError:
        """Return the error of a refusal, and log it."""
        if len(name) > LONGEST_CACHED_NAME:
            name = f"{name[:LONGEST_CACHED_NAME]}…"
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
