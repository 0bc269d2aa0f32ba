"""Kafka's `StandardAuthorizer`: may a principal, from a host, carry out an operation on a resource?

A super user may do everything. Else a rule that denies goes before any that allows; where no rule names the resource,
`allow.everyone.if.no.acl.found` decides. An ALLOW of READ, WRITE, DELETE or ALTER allows DESCRIBE, one of ALTER_CONFIGS
DESCRIBE_CONFIGS; a DENY implies nothing. `make lockstep` compares the answers with Kafka's own.

A question costs the same whatever the number of rules. These are stored by type of resource, then by literal name and
by prefix, then by principal. A name is looked up under itself, under `*`, and under each of its prefixes whose length
some prefixed rule has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from kohort.model.acl import (
    ANY_PRINCIPAL,
    WILDCARD,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    Principal,
    ResourceType,
)
from kohort.model.ids import LONGEST_CACHED_NAME

Rules = dict[str, dict[AclBinding, None]]
"""The rules of one pattern, by the text of their principal."""


class Patterns:
    """The rules for one type of resource."""

    def __init__(self) -> None:
        self._literal: dict[str, Rules] = {}
        self._prefixed: dict[str, Rules] = {}
        self._lengths: list[int] = []
        self._by_length: Counter[int] = Counter()
        """How many prefixes have each length."""

    def __iter__(self) -> Iterator[AclBinding]:
        for by_name in (self._literal, self._prefixed):
            for rules in by_name.values():
                for several in rules.values():
                    yield from several

    def applying(self, name: str) -> Iterator[Rules]:
        """Yield the rules that apply to a resource of that name.

        As in Kafka, those of `*` do not apply to a longer name that begins with `*`.
        """
        if name in self._literal:
            yield self._literal[name]
        if WILDCARD in self._literal and not name.startswith(WILDCARD):
            yield self._literal[WILDCARD]
        for length in self._lengths[: bisect_right(self._lengths, len(name))]:
            rules = self._prefixed.get(name[:length])
            if rules is not None:
                yield rules

    def add(self, acl: AclBinding) -> None:
        """Add a rule."""
        by_name = self._by_name(acl)
        if acl.name not in by_name:
            by_name[acl.name] = {}
            self._count_prefix(acl, 1)
        by_name[acl.name].setdefault(acl.principal, {})[acl] = None

    def remove(self, acl: AclBinding) -> None:
        """Remove a rule that is there."""
        by_name = self._by_name(acl)
        rules = by_name[acl.name]
        del rules[acl.principal][acl]
        if not rules[acl.principal]:
            del rules[acl.principal]
        if not rules:
            del by_name[acl.name]
            self._count_prefix(acl, -1)

    def _by_name(self, acl: AclBinding) -> dict[str, Rules]:
        return self._prefixed if acl.pattern_type is PatternType.PREFIXED else self._literal

    def _count_prefix(self, acl: AclBinding, by: int) -> None:
        if acl.pattern_type is PatternType.PREFIXED:
            self._by_length[len(acl.name)] += by
            self._lengths = sorted(+self._by_length)


class Acls:
    """The rules of a broker. Each change calls `on_change` with what was added and removed."""

    def __init__(self) -> None:
        self._all: dict[AclBinding, None] = {}
        self._patterns = {kind: Patterns() for kind in ResourceType}
        self.on_change: list[Callable[[frozenset[ResourceType]], None]] = []
        """Called after changes with the types of resources that they are about."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[AclBinding]:
        return iter(self._all)

    def __contains__(self, acl: AclBinding) -> bool:
        return acl in self._all

    def of(self, kind: ResourceType) -> Patterns:
        """Return the rules for one type of resource."""
        return self._patterns[kind]

    def selected(self, wanted: AclFilter) -> list[AclBinding]:
        """Return the rules that a filter selects."""
        if wanted.resource_type is ResourceType.ANY:
            return [acl for acl in self._all if wanted.matches(acl)]
        return [acl for acl in self._patterns[wanted.resource_type] if wanted.matches(acl)]

    def change(self, added: Iterable[AclBinding] = (), removed: Iterable[AclBinding] = ()) -> None:
        """Add and remove rules; one that is there already, or no longer, changes nothing."""
        touched = set()
        for acl in added:
            if acl not in self._all:
                self._all[acl] = None
                self._patterns[acl.resource_type].add(acl)
                touched.add(acl.resource_type)
        for acl in removed:
            if acl in self._all:
                del self._all[acl]
                self._patterns[acl.resource_type].remove(acl)
                touched.add(acl.resource_type)
        if touched:
            for changed in self.on_change:
                changed(frozenset(touched))


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
