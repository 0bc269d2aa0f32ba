"""The kills of a seed: what happens when, and how long. A pure function; each kind has a random stream of its own."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from random import Random
from typing import NamedTuple


class Kind(StrEnum):
    """What is killed, stopped or cut."""

    DRIVER = "kill a job"
    JAVA = "kill a job's Java"
    TASK = "kill Python workers"
    EXECUTOR = "kill an executor"
    POINT = "kill at a point"
    STOP = "SIGSTOP a job"
    BROKER = "kill the broker"
    STORE = "kill the object store"
    POSTGRES = "kill PostgreSQL"
    SESSIONS = "end sessions of PostgreSQL"
    CUT_BROKER = "cut connections to the broker"
    CUT_STORE = "cut connections to the store"
    CUT_POSTGRES = "cut connections to PostgreSQL"
    UPKEEP = "kill upkeep"


KILLS = frozenset(Kind) - {Kind.STOP, Kind.CUT_BROKER, Kind.CUT_STORE, Kind.CUT_POSTGRES}
"""What counts as a kill: a process, or a server's process of one session, ends in the midst of what it does."""


class Rule(NamedTuple):
    """How often a fault comes on average, and how long it lasts: until a server is started or a job continues."""

    every_s: float
    shortest_s: float = 0
    longest_s: float = 0


RULES = {
    Kind.DRIVER: Rule(30),
    Kind.JAVA: Rule(90),
    Kind.TASK: Rule(7),
    Kind.EXECUTOR: Rule(20),
    Kind.POINT: Rule(14),
    Kind.STOP: Rule(45, 0.5, 14),  # some longer than a session lasts
    Kind.BROKER: Rule(22, 0, 2),
    Kind.STORE: Rule(20, 0, 1.5),
    Kind.POSTGRES: Rule(30, 0, 1),
    Kind.SESSIONS: Rule(8),
    Kind.CUT_BROKER: Rule(9),
    Kind.CUT_STORE: Rule(9),
    Kind.CUT_POSTGRES: Rule(15),
    Kind.UPKEEP: Rule(18),
}


class Fault(NamedTuple):
    """One fault, in seconds since the first. `choice` in [0, 1) selects what it strikes."""

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
        at_s += lasts_s + random.expovariate(1 / every_s)
