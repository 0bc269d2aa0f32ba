"""What a client's software, as ApiVersions names it (KIP-511), demands where its heartbeats are parked."""

from __future__ import annotations

JAVA, KOHORT = "apache-kafka-java", "kohort"

KAFKAJS, SARAMA = "kafkajs", "sarama"

STOPPED_BY_HEARTBEATS = frozenset({KAFKAJS, SARAMA})
"""Clients that do nothing else while a heartbeat is unanswered: none of theirs is parked, also in no round.

kafkajs waits for the answer before it processes records. sarama sends no other request to the same broker, neither
commits nor OffsetFetch, and no Fetch where that broker has data.
"""

KAFKAJS_ASSIGNOR = "RoundRobinAssigner"
"""kafkajs does not name itself; its assignor, which no other client offers by this name, does."""


def can_static_member_wait(software: str) -> bool:
    """Whether a heartbeat of a static classic member may be parked while its group is stable.

    Java's close waits for the answers to all that it has sent, and a static member sends no LeaveGroup that would
    release a parked heartbeat.
    """
    return software != JAVA


COUNTING_FROM_ANSWERS = frozenset({"kgo", "platformatic-kafka"})
"""Clients whose next classic heartbeat is due an interval after the answer to the last one, not after that one.

All others send the next one when they would have sent it anyway, however long the last one waited.
"""

MAY_OVERLAP = frozenset({"", "unknown", JAVA})
"""Clients of which it must be found out whether they send the next classic heartbeat though the last is unanswered.

All others need the answer first.
"""
