"""The faults of a seed: what happens when, and how long. A pure function; each kind of fault has a random stream."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from random import Random
from typing import NamedTuple


class Kind(StrEnum):
    """What is done to the broker, its disk, its connections, or a member of a group."""

    KILL = "kill -9"
    STOP = "SIGSTOP"
    FULL = "full disk"
    CUT = "cut connections"
    HOSTILE = "hostile bytes"
    MEMBER = "kill a consumer"


class Rule(NamedTuple):
    """How often a fault comes on average, and how long it lasts."""

    every_s: float
    shortest_s: float
    longest_s: float


RULES = {
    Kind.KILL: Rule(25, 0, 4),  # until it is started again
    Kind.STOP: Rule(45, 0.2, 12),  # some longer than a session lasts
    Kind.FULL: Rule(60, 1, 10),
    Kind.CUT: Rule(7, 0, 0),
    Kind.HOSTILE: Rule(1.5, 0, 0),
    Kind.MEMBER: Rule(30, 0, 0),
}


class Fault(NamedTuple):
    """One fault, in seconds since the start of the faults. `choice` in [0, 1) selects what it strikes, if it must."""

    at_s: float
    kind: Kind
    lasts_s: float
    choice: float


def schedule(seed: int, duration_s: float) -> list[Fault]:
    """Return the faults of a seed, in their order."""
    return sorted(fault for kind in Kind for fault in _faults_of(kind, Random(f"{seed} {kind}"), duration_s))


def _faults_of(kind: Kind, random: Random, duration_s: float) -> Iterator[Fault]:
    every_s, shortest_s, longest_s = RULES[kind]
    at_s = random.expovariate(1 / every_s)
    while at_s < duration_s:
        lasts_s = random.uniform(shortest_s, longest_s)
        yield Fault(at_s, kind, lasts_s, random.random())
        # The same fault does not begin again before it has ended.
        at_s += lasts_s + random.expovariate(1 / every_s)
