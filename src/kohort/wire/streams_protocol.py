"""Kafka Streams' user data in classic groups: what its threads write into JoinGroup and its leader into SyncGroup.

It stands in the user data of the `consumer` protocol, under the assignor `stream`. Versions 1 to 11 of both messages
(Kafka Streams 0.10 to 4.3) are read; of a newer one only its number. Nothing of it is written here.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.wire.codec import Buffer
from kohort.wire.embedded_reader import EmbeddedReader
from kohort.wire.primitives import MalformedMessage

STREAMS_ASSIGNOR = "stream"
"""The assignor's name in groups of Kafka Streams."""

NEWEST = 11
RUNNING = -2
"""The offset sum of a task that is active and runs on the member."""
UNKNOWN = -3
"""The offset sum of a task of which nothing is known."""

NO_REBALANCE = 2**63 - 1

_WITH_LATEST_VERSION = 3
_WITH_ENDPOINT = 2
_WITH_OFFSET_SUMS = 7
_WITH_UNIQUE_FIELD = 8
_WITH_ERROR = 9
_WITH_FLAT_SUMS = 10
_WITH_TAGS = 11
_ASSIGNMENT_WITH_HOSTS = 2
_ASSIGNMENT_WITH_ERROR = 4
_ASSIGNMENT_WITH_TOPIC_NUMBERS = 5
_ASSIGNMENT_WITH_STANDBY_HOSTS = 6
_ASSIGNMENT_WITH_NEXT_REBALANCE = 7


@dataclass(frozen=True, slots=True, order=True)
class StreamsTask:
    """A task: a sub-topology and a partition; `topology` is set where an application has named topologies."""

    subtopology: int
    partition: int
    topology: str = ""

    def __str__(self) -> str:
        return (
            f"{self.topology}__{self.subtopology}_{self.partition}"
            if self.topology
            else (f"{self.subtopology}_{self.partition}")
        )


@dataclass(frozen=True, slots=True)
class StreamsSubscription:
    """What a thread of an application sends: its process, its tasks so far, and where its queries are served.

    `offset_sums` are the sums of the offsets of each task's state stores: `RUNNING`, `UNKNOWN`, or how far a copy is.
    Before version 7 the tasks are in `active` and `standby` instead. `error` is not 0 where the process asks that the
    whole application be shut down.
    """

    version: int
    latest_version: int = -1
    process_id: str = ""
    active: tuple[StreamsTask, ...] = ()
    standby: tuple[StreamsTask, ...] = ()
    offset_sums: tuple[tuple[StreamsTask, int], ...] = ()
    endpoint: str = ""
    error: int = 0
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def running(self) -> tuple[StreamsTask, ...]:
        """The tasks that were active on the member when it joined."""
        return self.active or tuple(task for task, offset in self.offset_sums if offset == RUNNING)


@dataclass(frozen=True, slots=True)
class StreamsAssignment:
    """What a thread is assigned. Warm-ups are among the standby tasks.

    `next_rebalance_ms` is the time, in milliseconds since 1970, of the follow-up rebalance that the leader has
    scheduled with this member, 0 for one at once, or None. `error` is not 0 where the application cannot run, or shuts
    down.
    """

    version: int
    supported_version: int = -1
    active: tuple[StreamsTask, ...] = ()
    standby: tuple[StreamsTask, ...] = ()
    error: int = 0
    next_rebalance_ms: int | None = None


def decode_streams_subscription(user_data: Buffer) -> StreamsSubscription:
    """Read the user data of a subscription. Raises `MalformedMessage`."""
    reader = EmbeddedReader(user_data, "Kafka Streams")
    version = _version(reader)
    latest = reader.int32() if version >= _WITH_LATEST_VERSION else -1
    if version > NEWEST:
        return StreamsSubscription(version, latest)
    process_id = _uuid(reader.bytes_of(16))
    active: tuple[StreamsTask, ...] = ()
    standby: tuple[StreamsTask, ...] = ()
    if version < _WITH_OFFSET_SUMS:
        active, standby = _tasks(reader, version), _tasks(reader, version)
    endpoint = _text(reader.blob()) if version >= _WITH_ENDPOINT else ""
    sums = _offset_sums(reader, version) if version >= _WITH_OFFSET_SUMS else ()
    if version >= _WITH_UNIQUE_FIELD:
        reader.int8()
    error = reader.int32() if version >= _WITH_ERROR else 0
    tags: tuple[tuple[str, str], ...] = ()
    if version >= _WITH_TAGS:
        tags = tuple((_text(reader.blob()), _text(reader.blob())) for _ in range(reader.count(8)))
    return StreamsSubscription(version, latest, process_id, active, standby, sums, endpoint, error, tags)


def decode_streams_assignment(user_data: Buffer) -> StreamsAssignment:
    """Read the user data of an assignment. Raises `MalformedMessage`."""
    reader = EmbeddedReader(user_data, "Kafka Streams")
    version = _version(reader)
    supported = reader.int32() if version >= _WITH_LATEST_VERSION else -1
    if version > NEWEST:
        return StreamsAssignment(version, supported)
    active = _tasks(reader, version)
    standby = tuple(_standby(reader, version) for _ in range(reader.count(12)))
    _skip_hosts(reader, version)
    error = reader.int32() if version >= _ASSIGNMENT_WITH_ERROR else 0
    next_ms: int | None = None
    if version >= _ASSIGNMENT_WITH_NEXT_REBALANCE and (at := reader.int64()) != NO_REBALANCE:
        next_ms = at
    return StreamsAssignment(version, supported, active, standby, error, next_ms)


def _version(reader: EmbeddedReader) -> int:
    version = reader.int32()
    if version < 1:
        raise MalformedMessage(f"a message of Kafka Streams has version {version}")
    return version


def _uuid(found: bytes) -> str:
    digits = found.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _text(found: bytes) -> str:
    return found.decode(errors="replace")


def _task(reader: EmbeddedReader, version: int) -> StreamsTask:
    subtopology, partition = reader.int32(), reader.int32()
    return StreamsTask(subtopology, partition, reader.wide_text() if version >= _WITH_FLAT_SUMS else "")


def _tasks(reader: EmbeddedReader, version: int) -> tuple[StreamsTask, ...]:
    return tuple(_task(reader, version) for _ in range(reader.count(8)))


def _offset_sums(reader: EmbeddedReader, version: int) -> tuple[tuple[StreamsTask, int], ...]:
    found: list[tuple[StreamsTask, int]] = []
    for _ in range(reader.count(8)):
        subtopology = reader.int32()
        if version < _WITH_FLAT_SUMS:
            for _ in range(reader.count(12)):
                task = StreamsTask(subtopology, reader.int32())
                found.append((task, reader.int64()))
            continue
        partition, offset = reader.int32(), reader.int64()
        length = reader.int16()  # -1 is null
        found.append((StreamsTask(subtopology, partition, _text(reader.bytes_of(max(length, 0)))), offset))
    return tuple(found)


def _standby(reader: EmbeddedReader, version: int) -> StreamsTask:
    task = _task(reader, version)
    for _ in range(reader.count(6)):
        reader.text()
        reader.int32()
    return task


def _skip_hosts(reader: EmbeddedReader, version: int) -> None:
    """Read past the partitions of each host, which only queries of state stores need."""
    if version < _ASSIGNMENT_WITH_HOSTS:
        return
    is_numbered = version >= _ASSIGNMENT_WITH_TOPIC_NUMBERS
    if is_numbered:
        for _ in range(reader.count(6)):
            reader.int32()
            reader.text()
    for _ in range(2 if version >= _ASSIGNMENT_WITH_STANDBY_HOSTS else 1):
        for _ in range(reader.count(10)):
            reader.text()
            reader.int32()
            for _ in range(reader.count(6)):
                if is_numbered:
                    reader.int32()
                else:
                    reader.text()
                reader.int32()
