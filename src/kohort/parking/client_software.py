"""Which client does what where its heartbeats are parked: one table, by software and version.

A client reports both in ApiVersions (KIP-511). What is safe with any client is the rule, each habit that helps an entry
of the table, read in the client's source and tried with it (`tests/interop/test_habits_of_clients.py`). A habit counts
from the oldest version that was read, and for all newer ones: these have stood for years. An older version, or one that
is none, is expected to read answers in order, to take no error, and to wait for its commits.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum, auto
from fnmatch import fnmatchcase

from kohort.model.errors import ErrorCode

UNKNOWN = "unknown"
"""How Kafka names a client that does not name itself (KIP-511)."""

JAVA, KGO, KOHORT, KAFKAJS, SARAMA, AIOKAFKA = "apache-kafka-java", "kgo", "kohort", "kafkajs", "sarama", "aiokafka"


class ClientPace(Enum):
    """When a client sends its next heartbeat. Only UNKNOWN changes by what is seen: to OVERLAPS or NEEDS_ANSWER."""

    UNKNOWN = auto()
    """One parked beyond its interval will show it (Java, and clients that do not name themselves)."""
    OVERLAPS = auto()
    """On time, though the last one is unanswered (Java)."""
    NEEDS_ANSWER = auto()
    """On time, if the last one is answered (librdkafka, kafka-python, aiokafka)."""
    FIRST_AT_ONCE = auto()
    """So too, and the first of a generation with the assignment (kohort)."""
    FROM_ANSWER = auto()
    """An interval after the answer to the last one (kgo)."""


@dataclass(frozen=True, slots=True)
class ClientHabits:
    """What a client does, and what its user can bear. The defaults are safe with any client."""

    pace: ClientPace = ClientPace.NEEDS_ANSWER
    repeat_error: ErrorCode = ErrorCode.NONE
    """After it the client sends a classic heartbeat again soon, with nothing in its log above DEBUG; NONE: no error."""
    repeats_after_ms: tuple[int, ...] = (0,)
    """How soon at the latest, by how many such errors in a row there were before; the last one stands for all more."""
    matches_by_id: bool = False
    """Whether it finds the request of an answer by its correlation id, in whatever order answers come."""
    delays_commits: bool = False
    """Whether answers to its timer's commits may wait: its close commits once more, and waits for no other answer."""
    is_stopped: bool = False
    """Whether it does nothing else while a heartbeat is unanswered: none is parked, also in no round."""
    join_pause_ms: int = 0
    """How long after a JoinGroup it sends the next one at the earliest, unless it has revoked partitions meanwhile."""
    names_itself_always: bool = False
    """Whether it names itself on each connection: one without a name, of the same host and client id, is another's."""
    parks_static: bool = True
    """Whether a heartbeat of a static member may be parked while its group is stable."""


_ANY: tuple[int, ...] = ()
_LIBRDKAFKA = ClientHabits(matches_by_id=True, join_pause_ms=1_000, names_itself_always=True)

_CLIENTS: tuple[tuple[str, tuple[int, ...], ClientHabits], ...] = (
    # The last branch of `AbstractCoordinator.HeartbeatResponseHandler` (2.4.0, 2.8.0, 3.4.0, 4.3.1): again after 100
    # ms, since 3.7 growing to 1,000 until one succeeds; a success alone resets the client's own session timer. `close`
    # waits for the answers to all that was sent; a static member sends no LeaveGroup that would release a heartbeat.
    (
        JAVA,
        (2, 4),
        ClientHabits(
            ClientPace.UNKNOWN,
            repeat_error=ErrorCode.REQUEST_TIMED_OUT,
            repeats_after_ms=(120, 240, 480, 960, 1_000),
            names_itself_always=True,
            parks_static=False,
        ),
    ),
    # `handleReqWithCoordinator`, `maybeDeleteStaleCoordinator`, `retryBackoff` (1.0.0 to 1.22.2): again after a
    # FindCoordinator and 250 ms, twice that after each more, up to 5 s. REQUEST_TIMED_OUT would end its session.
    (
        KGO,
        (1,),
        ClientHabits(
            ClientPace.FROM_ANSWER,
            repeat_error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            repeats_after_ms=(300, 600, 1_200, 2_400, 4_800, 5_000),
            names_itself_always=True,  # `brokerCxn.requestAPIVersions`
        ),
    ),
    # `rd_kafka_waitresp_find`, `rkcg_join_intvl` (1.4.0, the first that names itself, to 2.9.0). Its bindings name
    # themselves, not it.
    ("librdkafka*", _ANY, _LIBRDKAFKA),
    ("confluent-kafka*", _ANY, _LIBRDKAFKA),
    ("rdkafka*", _ANY, _LIBRDKAFKA),
    # @platformatic/kafka, `Connection` (1.35.0): a map by id. Its timer is refreshed by the answer.
    ("platformatic-kafka", (1, 35), ClientHabits(ClientPace.FROM_ANSWER, matches_by_id=True)),
    # `ConsumerCoordinator.close` (2.2.15, 2.3.0, 3.0.12): commits once more, and waits for that answer alone. It logs a
    # heartbeat's error as ERROR or WARNING.
    ("kafka-python", (2, 2), ClientHabits(delays_commits=True)),
    # `GroupCoordinator.close` (0.10.0, 0.12.0, 0.14.0) awaits the task that awaits the answer to the timer's commit,
    # and nothing shows it on the wire. A heartbeat's error has it drop its coordinator.
    (AIOKAFKA, _ANY, ClientHabits()),
    # `Broker.sendAndReceive` (1.61): no other request to the same broker, neither commits nor OffsetFetch, and no Fetch
    # where that broker has data.
    (SARAMA, _ANY, ClientHabits(is_stopped=True)),
    # `Runner` (2.2.4) waits for the answer before it processes records.
    (KAFKAJS, _ANY, ClientHabits(is_stopped=True)),
    # `net.connection`: a map by id.
    (KOHORT, _ANY, ClientHabits(ClientPace.FIRST_AT_ONCE, matches_by_id=True, names_itself_always=True)),
)
"""Names, as patterns, the oldest version with these habits, and the habits."""

STOPPED_BY_HEARTBEATS = frozenset(name for name, _, habits in _CLIENTS if habits.is_stopped)
"""Clients of which no heartbeat is parked."""

REPEAT_ERRORS = frozenset(habits.repeat_error for *_, habits in _CLIENTS) - {ErrorCode.NONE}
"""The errors after which some client sends a heartbeat again."""

_VERSION = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){0,3})(?!\d)", re.ASCII)
"""The beginning of a version: bindings of librdkafka append its own."""


@dataclass(frozen=True, slots=True)
class ClientSoftware:
    """The software of a client as ApiVersions names it, or `UNNAMED`, and its habits."""

    name: str
    version: str
    habits: ClientHabits

    @property
    def is_named(self) -> bool:
        """Whether it is known which one it is."""
        return self.name != UNKNOWN


UNNAMED = ClientSoftware(UNKNOWN, "", ClientHabits(ClientPace.UNKNOWN))
"""A client that has not named its software: what it does is found out."""

MAYBE_AIOKAFKA = replace(UNNAMED, version="JoinGroup 5")
"""One that has sent JoinGroup 5, the first version with a `group.instance.id` (KIP-345)."""

KAFKAJS_ASSIGNOR = "RoundRobinAssigner"
"""kafkajs does not name itself; its assignor, which no other client offers by this name, does."""


def software_named(name: str, version: str) -> ClientSoftware:
    """Return the software of a client that names itself so, both texts of any kind."""
    if not name or name == UNKNOWN:
        return UNNAMED
    for pattern, since, habits in _CLIENTS:
        if fnmatchcase(name, pattern):
            found = _VERSION.match(version)
            if found is None or tuple(map(int, found[1].split("."))) < since:
                habits = replace(habits, repeat_error=ErrorCode.NONE, matches_by_id=False, delays_commits=False)
            return ClientSoftware(name, version, habits)
    return ClientSoftware(name, version, ClientHabits())


def software_that_joins(software: ClientSoftware, api_version: int, assignors: Collection[str]) -> ClientSoftware:
    """Return what a client is that sends a JoinGroup: kafkajs is shown by its assignor."""
    if software.is_named:
        return software
    if KAFKAJS_ASSIGNOR in assignors:
        return software_named(KAFKAJS, "")
    return MAYBE_AIOKAFKA if api_version == 5 else UNNAMED


def software_that_beats(software: ClientSoftware, api_version: int) -> ClientSoftware:
    """Return what a client is that sends a classic heartbeat.

    All others that know JoinGroup 5 know Heartbeat 3 too, which came with it; aiokafka knows Heartbeat 1 alone.
    """
    return software_named(AIOKAFKA, "") if software is MAYBE_AIOKAFKA and api_version <= 1 else software
