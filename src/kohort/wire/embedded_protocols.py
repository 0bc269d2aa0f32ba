"""Embedded protocols of Kafka Streams and Kafka Connect in classic groups' JoinGroup and SyncGroup. Only read here.

What Streams' threads and their leader write stands in the user data of the `consumer` protocol, under the assignor
`stream`. Versions 1 to 11 of both messages (Kafka Streams 0.10 to 4.3) are read; of a newer one only its number. Of
Connect, version 0 is the eager protocol; 1 (compatible) and 2 (sessioned) have the same layout (KIP-415, KIP-507). No
bytes at all are no assignment.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack

from kohort.wire.codec import Buffer, decode
from kohort.wire.messages import AssignmentInfo, ConnectAssignmentInfo, ConnectWorkerState, SubscriptionInfoData
from kohort.wire.primitives import MalformedMessage

CONNECTOR = -1
"""Stands among a connector's task numbers for the connector itself."""

Tasks = tuple[tuple[str, int], ...]
"""Connectors' names, each with the number of a task or `CONNECTOR`."""


def task_names(tasks: Tasks) -> list[str]:
    """Return connectors and their tasks as Connect names them, in order: NAME and NAME-NUMBER."""
    return [name if number == CONNECTOR else f"{name}-{number}" for name, number in sorted(tasks)]


@dataclass(frozen=True, slots=True)
class ConnectAssignment:
    """What a worker is assigned, by which leader, up to which offset of the configuration, and what it has to revoke.

    `delay_ms` is how long the tasks of a worker that is gone wait for its return (KIP-415). `error` is not 0 where the
    leader had not read as much of the configuration as a worker.
    """

    version: int = 0
    error: int = 0
    leader: str = ""
    leader_url: str = ""
    config_offset: int = -1
    assigned: Tasks = ()
    revoked: Tasks = ()
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class ConnectWorker:
    """What a worker sends about itself: where its REST interface is, and how much of the configuration it has read.

    `allocation` is what it ran when it joined, from version 1 on.
    """

    version: int
    url: str
    config_offset: int
    allocation: Tasks = ()

    def running(self, given: ConnectAssignment) -> Tasks:
        """Return what it runs with an assignment, which from version 1 on is a difference."""
        retained = set(self.allocation) - set(given.revoked) if given.version else set[tuple[str, int]]()
        return tuple(sorted(retained | set(given.assigned)))


def decode_connect_worker(blob: Buffer) -> ConnectWorker:
    """Read a worker's metadata of any version. Raises `MalformedMessage`."""
    found, _ = decode(ConnectWorkerState, _layout(blob), blob)
    allocation = decode_connect_assignment(found.allocation or b"").assigned
    return ConnectWorker(found.version, found.url, found.config_offset, allocation)


def decode_connect_assignment(blob: Buffer) -> ConnectAssignment:
    """Read an assignment of any version. Raises `MalformedMessage`."""
    if not len(blob):
        return ConnectAssignment()
    found, _ = decode(ConnectAssignmentInfo, _layout(blob), blob)
    assigned, revoked = (
        tuple((each.connector, number) for each in connectors or () for number in each.tasks or ())
        for connectors in (found.assigned, found.revoked)
    )
    return ConnectAssignment(
        found.version, found.error, found.leader, found.leader_url, found.config_offset, assigned, revoked,
        found.delay_ms,
    )  # fmt: skip


def _layout(blob: Buffer) -> int:
    """Return the version to read a blob as: newer ones only add to the newest layout that is known."""
    return max(0, min(int.from_bytes(blob[:2], "big", signed=True), ConnectAssignmentInfo.VERSIONS.highest))


STREAMS_ASSIGNOR = "stream"
"""The assignor's name in groups of Kafka Streams."""

NEWEST = 11
_WITH_FLAT_SUMS = 10
RUNNING = -2
"""The offset sum of a task that is active and runs on the member."""
UNKNOWN = -3
"""The offset sum of a task of which nothing is known."""

_NO_REBALANCE = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class StreamsTask:
    """A task: a sub-topology and a partition; `topology` is set where an application has named topologies."""

    subtopology: int
    partition: int
    topology: str = ""

    def __str__(self) -> str:
        name = f"{self.subtopology}_{self.partition}"
        return f"{self.topology}__{name}" if self.topology else name


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
    version, latest = _versions(user_data)
    if version > NEWEST:
        return StreamsSubscription(version, latest)
    found, _ = decode(SubscriptionInfoData, version, user_data)
    sums: list[tuple[StreamsTask, int]] = []
    for each in found.task_offset_sums:
        if version < _WITH_FLAT_SUMS:
            sums += [(StreamsTask(each.topic_group_id, of.partition), of.offset_sum)
                     for of in each.partition_to_offset_sum]  # fmt: skip
        else:
            task = StreamsTask(each.topic_group_id, each.partition, each.named_topology or "")
            sums.append((task, each.offset_sum))
    return StreamsSubscription(
        version,
        found.latest_supported_version,
        _uuid(found.process_id),
        tuple(StreamsTask(task.topic_group_id, task.partition) for task in found.prev_tasks),
        tuple(StreamsTask(task.topic_group_id, task.partition) for task in found.standby_tasks),
        tuple(sums),
        _text(found.user_end_point),
        found.error_code,
        tuple((_text(tag.key), _text(tag.value)) for tag in found.client_tags),
    )


def decode_streams_assignment(user_data: Buffer) -> StreamsAssignment:
    """Read the user data of an assignment. Raises `MalformedMessage`."""
    version, supported = _versions(user_data)
    if version > NEWEST:
        return StreamsAssignment(version, supported)
    found, _ = decode(AssignmentInfo, version, user_data)
    active, standby = (
        tuple(StreamsTask(task.topic_group_id, task.partition, _wide_text(task.named_topology)) for task in tasks)
        for tasks in (found.active_tasks, found.standby_tasks)
    )
    next_ms = None if found.next_rebalance_ms == _NO_REBALANCE else found.next_rebalance_ms
    return StreamsAssignment(version, found.latest_supported_version, active, standby, found.error_code, next_ms)


def _versions(user_data: Buffer) -> tuple[int, int]:
    """Return the version of a message, and the newest one that its writer knows. Raises `MalformedMessage`."""
    version, latest = (int.from_bytes(user_data[at : at + 4], "big", signed=True) for at in (0, 4))
    if version < 1 or (version > NEWEST and len(user_data) < 8):
        raise MalformedMessage(f"a message of Kafka Streams of {len(user_data)} bytes has version {version}")
    return version, latest


def _uuid(found: bytes) -> str:
    digits = found.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _text(found: bytes) -> str:
    return found.decode(errors="replace")


def _wide_text(units: list[int]) -> str:
    return pack(f">{len(units)}H", *units).decode("utf-16-be", "replace")
