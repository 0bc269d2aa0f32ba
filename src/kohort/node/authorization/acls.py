"""The ACLs of one broker, indexed so that a question costs the same whatever the number of rules.

Rules are stored by type of resource, then by literal name and by prefix, then by principal. A name is looked up under
itself, under `*`, and under each of its prefixes whose length some prefixed rule has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from kohort.model.acl import WILDCARD, AclBinding, AclFilter, PatternType, ResourceType

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
