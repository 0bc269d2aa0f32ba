"""What a client's software, as ApiVersions names it (KIP-511), demands where its heartbeats are parked."""

from __future__ import annotations

from kohort.model.errors import ErrorCode

JAVA, KGO, KOHORT = "apache-kafka-java", "kgo", "kohort"

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


COUNTING_FROM_ANSWERS = frozenset({KGO, "platformatic-kafka"})
"""Clients whose next classic heartbeat is due an interval after the answer to the last one, not after that one.

All others send the next one when they would have sent it anyway, however long the last one waited.
"""

MAY_OVERLAP = frozenset({"", "unknown", JAVA})
"""Clients of which it must be found out whether they send the next classic heartbeat though the last is unanswered.

All others need the answer first.
"""

REPEATS_HEARTBEAT = {JAVA: ErrorCode.REQUEST_TIMED_OUT, KGO: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""The error after which a client sends a classic heartbeat again soon, with nothing in its log above DEBUG.

Java (kafka-clients 4.3.1, the last branch of `AbstractCoordinator.HeartbeatResponseHandler`): after 100 ms, growing to
1,000 until one succeeds; its session timer is reset by a success alone. kgo (franz-go 1.22.2,
`handleReqWithCoordinator`): after 250 ms and a FindCoordinator; REQUEST_TIMED_OUT would end its session. No others:
kafka-python logs an error, aiokafka drops its coordinator, sarama ends its session.
"""

_MATCHES_BY_ID = ("librdkafka", "confluent-kafka", "rdkafka", "platformatic-kafka")


def matches_answers_by_id(software: str) -> bool:
    """Whether a client finds the request of an answer by its correlation id, in whatever order answers come.

    librdkafka (`rd_kafka_waitresp_find`) and its bindings, which name themselves; @platformatic/kafka has a map.
    Java, kgo, sarama, kafka-python and aiokafka close the connection instead.
    """
    return software.startswith(_MATCHES_BY_ID)
