"""Kafka's `StandardAuthorizer`: may a principal, from a host, carry out an operation on a resource?

A super user may do everything. Else a rule that denies goes before any that allows; where no rule names the resource,
`allow.everyone.if.no.acl.found` decides. An ALLOW of READ, WRITE, DELETE or ALTER allows DESCRIBE, one of ALTER_CONFIGS
DESCRIBE_CONFIGS; a DENY implies nothing. `make lockstep` compares the answers with Kafka's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.model.acl import (
    ANY_PRINCIPAL,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from kohort.model.ids import LONGEST_CACHED_NAME
from kohort.model.principal import Principal
from kohort.node.authorization.acls import Acls

MOST_REMEMBERED = 50_000
"""Answers that are remembered until the rules change."""

_ALL, _READ, _WRITE, _DELETE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
_ALTER, _ALTER_CONFIGS = AclOperation.ALTER, AclOperation.ALTER_CONFIGS
_IMPLYING = {
    AclOperation.DESCRIBE: frozenset({_READ, _WRITE, _DELETE, _ALTER}),
    AclOperation.DESCRIBE_CONFIGS: frozenset({_ALTER_CONFIGS}),
}
_ALLOWING = {operation: frozenset({operation, _ALL}) | _IMPLYING.get(operation, set()) for operation in AclOperation}
"""The operations of rules that allow an operation."""

_UNNAMED = "hardcode"
"""The topic that Kafka asks about before it looks for any topic."""

_Question = tuple[Principal, str, AclOperation, ResourceType, str]


class Authorizer:
    """Answers by the rules of a broker. `super_users` are the texts of principals."""

    def __init__(self, acls: Acls, super_users: Iterable[str] = (), *, allows_without_acl: bool = False) -> None:
        self._acls = acls
        self._super_users = frozenset(super_users)
        self._allows_without_acl = allows_without_acl
        self._answers: dict[_Question, bool] = {}
        acls.on_change.append(self._forget)

    def allows(self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Whether an operation on the resource of that type and name is allowed."""
        question = principal, host, operation, kind, name
        answer = self._answers.get(question)
        if answer is None:
            answer = self._decide(str(principal), host, operation, kind, name)
            if len(name) <= LONGEST_CACHED_NAME:
                if len(self._answers) >= MOST_REMEMBERED:
                    self._answers.clear()
                self._answers[question] = answer
        return answer

    def allows_some(self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType) -> bool:
        """Whether the operation is allowed on some resource of the type, as `authorizeByResourceType` (KIP-679)."""
        if self.allows(principal, host, operation, kind, _UNNAMED):
            return True
        allowed: set[tuple[PatternType, str]] = set()
        denied: set[tuple[PatternType, str]] = set()
        for acl in self._acls.of(kind):
            is_his = acl.principal in (str(principal), ANY_PRINCIPAL) and acl.host in (host, WILDCARD)
            if is_his and acl.operation in (operation, _ALL):
                found = allowed if acl.permission is AclPermission.ALLOW else denied
                found.add((acl.pattern_type, acl.name))
        everything = PatternType.LITERAL, WILDCARD
        if everything in denied or everything in allowed:
            return everything not in denied
        return any(
            (kind_of_name, name) not in denied
            and not any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
            for kind_of_name, name in allowed
        )

    def _decide(self, principal: str, host: str, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        if principal in self._super_users:
            return True
        has_rules = is_allowed = False
        for rules in self._acls.of(kind).applying(name):
            has_rules = True
            for named in (principal, ANY_PRINCIPAL):
                for acl in rules.get(named, ()):
                    effect = _effect(acl, host, operation)
                    if effect is AclPermission.DENY:
                        return False
                    is_allowed = is_allowed or effect is AclPermission.ALLOW
        return is_allowed if has_rules else self._allows_without_acl

    def _forget(self, _kinds: frozenset[ResourceType]) -> None:
        self._answers.clear()


def _effect(acl: AclBinding, host: str, operation: AclOperation) -> AclPermission | None:
    """Return what a rule for a principal and a resource means to an operation, None where it does not cover it."""
    if acl.host not in (WILDCARD, host):
        return None
    if acl.permission is AclPermission.ALLOW:
        return acl.permission if acl.operation in _ALLOWING[operation] else None
    return acl.permission if acl.operation in (operation, _ALL) else None
