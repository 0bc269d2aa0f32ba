"""A TCP proxy that kills the sender of a request at a named point of its step, and cuts connections.

A point is a request by its bytes, and when its sender is killed: before the request is forwarded, so that it is never
carried out; just before it is carried out, as if it had been on its way for long; or after it was carried out, with its
answer lost. The sender is found by its socket.
"""

from __future__ import annotations

import re
import select
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from interop.torture.cut_connections import CuttingProxy

ANSWER_S = 1
"""How long a server may take to carry out a request whose sender is dead."""


class When(StrEnum):
    """When the sender of a request is killed."""

    BEFORE = "never carried out"
    LATE = "carried out after its death"
    AFTER = "carried out, its answer lost"


class Point(NamedTuple):
    """A request that contains a pattern, and when its sender is killed."""

    name: str
    service: str
    pattern: bytes
    when: When

    def __str__(self) -> str:
        return f"{self.name}, {self.when}"


class Gate(CuttingProxy):
    """A proxy in front of one server of this machine; `kill` ends the process that has a socket."""

    def __init__(self, upstream: int, kill: Callable[[int], bool]) -> None:
        super().__init__(upstream)
        self._kill = kill
        self._armed: Point | None = None
        self._lost: set[int] = set()  # sockets of servers whose answers are dropped
        self._gate_lock = threading.Lock()
        self.sprung: list[Point] = []

    def lead_to(self, port: int) -> None:
        """Pass connections on to a port of this machine from now on."""
        self._upstream = port

    def arm(self, point: Point | None) -> None:
        """Kill the sender of the next request of a point; none disarms."""
        with self._gate_lock:
            self._armed = point

    def _pump(self, source: socket.socket, target: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        watched = self._watcher(*pair)
        is_dropped = watched if source is pair[0] else lambda _: source.fileno() in self._lost
        super()._pump(_Watched(source, is_dropped), target, pair)  # type: ignore[arg-type]

    def _watcher(self, client: socket.socket, server: socket.socket) -> Callable[[bytes], bool]:
        """Return a function of what a client sends, which returns whether that must not be forwarded."""
        port = 0
        with suppress(OSError):  # it is gone already
            port = client.getpeername()[1]

        def watch(chunk: bytes) -> bool:
            with self._gate_lock:
                point = self._armed
                if point is None or not re.search(point.pattern, chunk, re.DOTALL):
                    return False
                self._armed = None
            self._spring(point, port, _whole(chunk, client), server)
            return True

        return watch

    def _spring(self, point: Point, port: int, chunk: bytes, server: socket.socket) -> None:
        self._lost.add(server.fileno())
        try:
            if point.when is When.AFTER:
                server.sendall(chunk)
                select.select([server], [], [], ANSWER_S)
            is_killed = self._kill(port)
            if point.when is When.LATE:
                server.sendall(chunk)
                select.select([server], [], [], ANSWER_S)
            if is_killed:
                self.sprung.append(point)
        finally:
            self._lost.discard(server.fileno())
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)


def _whole(chunk: bytes, client: socket.socket) -> bytes:
    """Return a request of HTTP with its body, which may come in pieces of its own; any other request as it is."""
    head, end, body = chunk.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    if end and length:
        client.settimeout(ANSWER_S)
        with suppress(OSError):
            while len(body) < int(length[1]) and (more := client.recv(1 << 16)):
                body += more
        client.settimeout(None)
    return head + end + body


class _Watched:
    """A socket whose bytes a function sees first, and drops where it returns true."""

    def __init__(self, source: socket.socket, is_dropped: Callable[[bytes], bool]) -> None:
        self._source = source
        self._is_dropped = is_dropped
        self.close = source.close

    def recv(self, size: int) -> bytes:
        while chunk := self._source.recv(size):
            if not self._is_dropped(chunk):
                return chunk
        return b""


def owner_of(port: int, pids: Iterable[int]) -> int | None:
    """Return which of some processes has the socket of a local port."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for pid in pids:
        with suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    if str(descriptor.readlink()) in wanted:
                        return pid
    return None


def _inodes(port: int) -> Iterable[str]:
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


WRITER = "writer-"
"""How the client ids of the programs begin that write the topic, which are not killed."""

FETCH, OFFSET_COMMIT, SYNC_GROUP, END_TRANSACTION, TRANSACTIONAL_COMMIT = 1, 8, 14, 26, 28


def _request(api_key: int) -> bytes:
    """Return a pattern of the first bytes of a request of Kafka, up to its client id, which is not that of a writer."""
    return rb"^....\x00" + re.escape(bytes([api_key])) + rb".{8}(?!" + WRITER.encode() + rb")"


POINTS = (
    Point("rows of a round are written", "store", rb"^(?:PUT|POST) /\S+\.parquet", When.BEFORE),
    *(Point("commit of the Delta table", "store", rb"^PUT /\S+/_delta_log/\d+\.json", when) for when in When),
    Point("metadata of the Iceberg table", "store", rb"^PUT /\S+/metadata/", When.BEFORE),
    *(Point("commit of the database", "postgres", rb"COMMIT", when) for when in When),
    *(Point("commit of the group", "broker", _request(OFFSET_COMMIT), when) for when in When),
    *(Point("offsets join a transaction", "broker", _request(TRANSACTIONAL_COMMIT), when) for when in When),
    *(Point("end of a transaction", "broker", _request(END_TRANSACTION), when) for when in When),
    Point("round of a rebalance", "broker", _request(SYNC_GROUP), When.AFTER),
    Point("records are fetched", "broker", _request(FETCH), When.AFTER),
)
"""Where a step of a job is cut in two."""
