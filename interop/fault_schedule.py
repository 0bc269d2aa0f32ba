"""The faults of a seed: what happens when, and how long. A pure function; each kind of fault has a random stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from random import Random
from typing import Generic, NamedTuple, TypeVar

Kind = TypeVar("Kind", bound=StrEnum)


class Rule(NamedTuple):
    """How often a fault comes on average, and how long it lasts."""

    every_s: float
    shortest_s: float = 0
    longest_s: float = 0


class Fault(NamedTuple, Generic[Kind]):
    """One fault, in seconds since the start of the faults. `choice` in [0, 1) selects what it strikes, if it must."""

    at_s: float
    kind: Kind
    lasts_s: float
    choice: float


def schedule(rules: Mapping[Kind, Rule], seed: int, duration_s: float) -> list[Fault[Kind]]:
    """Return the faults of a seed by the rules of their kinds, in their order."""
    return sorted(
        fault for kind, rule in rules.items() for fault in _faults_of(kind, rule, Random(f"{seed} {kind}"), duration_s)
    )


def _faults_of(kind: Kind, rule: Rule, random: Random, duration_s: float) -> Iterator[Fault[Kind]]:
    at_s = random.expovariate(1 / rule.every_s)
    while at_s < duration_s:
        lasts_s = random.uniform(rule.shortest_s, rule.longest_s)
        yield Fault(at_s, kind, lasts_s, random.random())
        # The same fault does not begin again before it has ended.
        at_s += lasts_s + random.expovariate(1 / rule.every_s)
