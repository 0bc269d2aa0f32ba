"""The embedded `connect` protocol: what workers of Kafka Connect write into JoinGroup and SyncGroup. Only read here.

Version 0 is the eager protocol; 1 (compatible) and 2 (sessioned) have the same layout (KIP-415, KIP-507). No bytes at
all are no assignment.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.wire.codec import Buffer, decode
from kohort.wire.messages import ConnectAssignmentInfo, ConnectWorkerState

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
