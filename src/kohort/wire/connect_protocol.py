"""The embedded `connect` protocol: what workers of Kafka Connect write into JoinGroup and SyncGroup. Only read here.

Version 0 is the eager protocol; 1 (compatible) and 2 (sessioned) have the same layout (KIP-415, KIP-507). No bytes at
all are no assignment.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as ShortRead  # noqa: N812

from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage

CONNECTOR = -1
"""Stands among a connector's task numbers for the connector itself."""

_SHORT, _INT, _LONG = Struct(">h"), Struct(">i"), Struct(">q")

Tasks = tuple[tuple[str, int], ...]
"""Connectors' names, each with the number of a task or `CONNECTOR`."""


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


class _Reader:
    """Reads fields one after the other. Raises MalformedMessage."""

    def __init__(self, blob: Buffer) -> None:
        self._blob = bytes(blob)
        self._at = 0

    def number(self, kind: Struct) -> int:
        try:
            (found,) = kind.unpack_from(self._blob, self._at)
        except ShortRead as error:
            raise MalformedMessage(f"a message of Connect ends after {len(self._blob)} bytes") from error
        self._at += kind.size
        return int(found)

    def text(self) -> str:
        length = self.number(_SHORT)
        end = self._at + length
        if length < 0 or end > len(self._blob):
            raise MalformedMessage(f"a message of Connect has a text of {length} bytes")
        try:
            found = self._blob[self._at : end].decode()
        except UnicodeDecodeError as error:
            raise MalformedMessage("a message of Connect has a text that is no UTF-8") from error
        self._at = end
        return found

    def blob(self) -> bytes:
        """Return bytes; null is none."""
        length = max(self.count(1), 0)
        self._at += length
        return self._blob[self._at - length : self._at]

    def count(self, least: int) -> int:
        """Return how many entries of `least` bytes at least follow; a null array has none."""
        count = self.number(_INT)
        if count * least > len(self._blob) - self._at:
            raise MalformedMessage(f"a message of Connect has {count} entries in {len(self._blob)} bytes")
        return max(count, 0)

    def tasks(self) -> Tasks:
        found: list[tuple[str, int]] = []
        for _ in range(self.count(_SHORT.size + _INT.size)):
            connector = self.text()
            found += [(connector, self.number(_INT)) for _ in range(self.count(_INT.size))]
        return tuple(found)


def decode_connect_worker(blob: Buffer) -> ConnectWorker:
    """Read a worker's metadata of any version. Raises `MalformedMessage`."""
    reader = _Reader(blob)
    version, url, offset = reader.number(_SHORT), reader.text(), reader.number(_LONG)
    allocation = reader.blob() if version else b""
    return ConnectWorker(version, url, offset, decode_connect_assignment(allocation).assigned)


def decode_connect_assignment(blob: Buffer) -> ConnectAssignment:
    """Read an assignment of any version. Raises `MalformedMessage`."""
    if not len(blob):
        return ConnectAssignment()
    reader = _Reader(blob)
    version, error = reader.number(_SHORT), reader.number(_SHORT)
    leader, url, offset = reader.text(), reader.text(), reader.number(_LONG)
    assigned = reader.tasks()
    if version < 1:
        return ConnectAssignment(version, error, leader, url, offset, assigned)
    return ConnectAssignment(version, error, leader, url, offset, assigned, reader.tasks(), reader.number(_INT))
