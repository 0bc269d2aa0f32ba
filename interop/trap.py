"""A proxy between clients and one broker that stops in the middle of a round, so that a test can kill the broker there.

Once set, it lets the first answer of an API that grants something pass, swallows all later ones of that API, and says
that it has sprung: the broker has stored what it answered, and only one member knows. Everything else goes through.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

JOIN_GROUP, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT = 11, 14, 68
_FIRST_FLEXIBLE = {JOIN_GROUP: 6, SYNC_GROUP: 4, CONSUMER_GROUP_HEARTBEAT: 0}
_FIRST_WITH_THROTTLE = {JOIN_GROUP: 2, SYNC_GROUP: 1, CONSUMER_GROUP_HEARTBEAT: 0}


class Trap:
    """Listens on `bootstrap` and passes on to `upstream` (HOST:PORT), which may come and go; a context manager."""

    def __init__(self) -> None:
        self.upstream = ""
        self.has_sprung = threading.Event()
        self._api_key: int | None = None
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.bootstrap = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Trap:
        threading.Thread(target=self._accept, name="trap", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def set(self, api_key: int) -> None:
        """From now on let one answer of this API pass."""
        with self._lock:
            self._api_key = api_key
            self.has_sprung.clear()

    def open(self) -> None:
        """Let everything pass again."""
        with self._lock:
            self._api_key = None

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                host, _, port = self.upstream.rpartition(":")
                try:
                    broker = socket.create_connection((host, int(port)), timeout=5)
                except OSError:  # it is down, as this connection is now
                    client.close()
                    continue
                broker.settimeout(None)
                asked: dict[int, tuple[int, int]] = {}
                for pump in (self._requests, self._answers):
                    threading.Thread(target=self._run, args=(pump, client, broker, asked), daemon=True).start()

    def _run(
        self, pump: object, client: socket.socket, broker: socket.socket, asked: dict[int, tuple[int, int]]
    ) -> None:
        with suppress(OSError):
            pump(client, broker, asked)  # type: ignore[operator]
        for each in (client, broker):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _requests(self, client: socket.socket, broker: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        while frame := _frame(client):
            api_key, version, correlation = struct.unpack_from(">hhi", frame, 4)
            asked[correlation] = (api_key, version)
            broker.sendall(frame)

    def _answers(self, client: socket.socket, broker: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        while frame := _frame(broker):
            (correlation,) = struct.unpack_from(">i", frame, 4)
            if self._passes(*asked.pop(correlation), frame):
                client.sendall(frame)

    def _passes(self, api_key: int, version: int, frame: bytes) -> bool:
        with self._lock:
            if api_key != self._api_key:
                return True
            at = 8 + (version >= _FIRST_FLEXIBLE[api_key]) + 4 * (version >= _FIRST_WITH_THROTTLE[api_key])
            (error,) = struct.unpack_from(">h", frame, at)
            if error:
                return True
            is_first = not self.has_sprung.is_set()
            self.has_sprung.set()
            return is_first


def _frame(source: socket.socket) -> bytes:
    """Return the next frame with its length, or nothing at the end."""
    head = _exactly(source, 4)
    return head and head + _exactly(source, struct.unpack(">i", head)[0])


def _exactly(source: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = source.recv(count - len(parts))
        if not part:
            return b""
        parts += part
    return bytes(parts)
