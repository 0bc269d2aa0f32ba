"""What is done to a broker and its clients, how often, and for how long."""

from __future__ import annotations

from enum import StrEnum

from interop.fault_schedule import Rule


class Kind(StrEnum):
    """What is done to the broker, its disk, its connections, or a member of a group."""

    KILL = "kill -9"
    STOP = "SIGSTOP"
    FULL = "full disk"
    CUT = "cut connections"
    HOSTILE = "hostile bytes"
    MEMBER = "kill a consumer"
    SERVICE = "end a service"


RULES = {
    Kind.KILL: Rule(25, 0, 4),  # until it is started again
    Kind.STOP: Rule(45, 0.2, 12),  # some longer than a session lasts
    Kind.FULL: Rule(60, 1, 10),
    Kind.CUT: Rule(7, 0, 0),
    Kind.HOSTILE: Rule(1.5, 0, 0),
    Kind.MEMBER: Rule(30, 0, 0),
    Kind.SERVICE: Rule(8, 0, 0),  # half of them by SIGTERM
}
