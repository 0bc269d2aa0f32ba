"""The embedded `connect` protocol: what workers of Kafka Connect write into JoinGroup and SyncGroup. Only read here.

Version 0 is the eager protocol; 1 (compatible) and 2 (sessioned) have the same layout (KIP-415, KIP-507). No bytes at
all are no assignment.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.wire.codec import Buffer
from kohort.wire.embedded_reader import EmbeddedReader

CONNECTOR = -1
"""Stands among a connector's task numbers for the connector itself."""

_TASKS_LEAST, _TASK_LEAST = 6, 4
"""Bytes that a connector with its tasks, and a task, take at least."""

Tasks = tuple[tuple[str, int], ...]
"""Connectors' names, each with the number of a task or `CONNECTOR`."""


def task_names(tasks: Tasks) -> list[str]:
    """Return connectors and their tasks as Connect names them, in order: NAME and NAME-NUMBER."""
    return [name if number == CONNECTOR else f"{name}-{number}" for name, number in sorted(tasks)]


@dataclass(frozen=True, slots=True)
class ConnectAssignment:
    """What a worker is assigned, by which leader, up to which offset of the configuration, and what it gives up.

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
        kept = set(self.allocation) - set(given.revoked) if given.version else set[tuple[str, int]]()
        return tuple(sorted(kept | set(given.assigned)))


def _tasks(reader: EmbeddedReader) -> Tasks:
    found: list[tuple[str, int]] = []
    for _ in range(reader.count(_TASKS_LEAST)):
        connector = reader.text()
        found += [(connector, reader.int32()) for _ in range(reader.count(_TASK_LEAST))]
    return tuple(found)


def decode_connect_worker(blob: Buffer) -> ConnectWorker:
    """Read a worker's metadata of any version. Raises `MalformedMessage`."""
    reader = EmbeddedReader(blob, "Connect")
    version, url, offset = reader.int16(), reader.text(), reader.int64()
    allocation = reader.blob() if version else b""
    return ConnectWorker(version, url, offset, decode_connect_assignment(allocation).assigned)


def decode_connect_assignment(blob: Buffer) -> ConnectAssignment:
    """Read an assignment of any version. Raises `MalformedMessage`."""
    if not len(blob):
        return ConnectAssignment()
    reader = EmbeddedReader(blob, "Connect")
    version, error = reader.int16(), reader.int16()
    leader, url, offset = reader.text(), reader.text(), reader.int64()
    assigned = _tasks(reader)
    if version < 1:
        return ConnectAssignment(version, error, leader, url, offset, assigned)
    return ConnectAssignment(version, error, leader, url, offset, assigned, _tasks(reader), reader.int32())
