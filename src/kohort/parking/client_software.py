"""What a client's software, as ApiVersions names it (KIP-511), demands where its heartbeats are parked."""

from __future__ import annotations

JAVA = "apache-kafka-java"

MARGIN_MS = {"kohort": 0, "unknown": 0, JAVA: 50}
"""How long before its next heartbeat is due a client of the consumer protocol must have the last answer.

0 where it does not matter. Java's client polls without pause until it is answered.
"""

OTHERS_MARGIN_MS = 200
"""The same for all others. librdkafka, under many names, abandons a heartbeat when the next one is due."""


def can_static_member_wait(software: str) -> bool:
    """Whether a heartbeat of a static classic member may be parked while its group is stable.

    Java's close waits for the answers to all that it has sent, and a static member sends no LeaveGroup that would
    release a parked heartbeat.
    """
    return software != JAVA
