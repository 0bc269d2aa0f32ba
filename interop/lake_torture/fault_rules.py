"""What is killed, stopped or cut, how often, and how long it lasts: until a server is started or a job continues."""

from __future__ import annotations

from enum import StrEnum

from interop.fault_schedule import Rule


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
