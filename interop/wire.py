"""One blocking connection to a broker, which sends the requests that it is given and no others."""

from __future__ import annotations

import select
import socket
from struct import unpack
from types import TracebackType
from typing import Any, Self

from kohort.wire.apis import Api, response_class
from kohort.wire.frames import decode_response, encode_request


class Wire:
    """A client that is one connection, from the address `source`. Raises `EOFError` where the broker closes it."""

    def __init__(self, address: str, client_id: str = "wire", *, timeout_s: float = 30, source: str = "") -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s, (source, 0) if source else None)
        self._client_id = client_id
        self._sent: list[tuple[Api, int]] = []

    def send(self, message: Any, version: int) -> None:
        """Send a request; its answer is the next that `receive` returns, after those of earlier requests."""
        self._sent.append((Api(message.API_KEY), version))
        self.socket.sendall(encode_request(message, version, len(self._sent), self._client_id))

    def receive(self) -> Any:
        """Return the answer of the oldest request that has none."""
        api, version = self._sent.pop(0)
        (size,) = unpack(">i", self._read(4))
        return decode_response(response_class(api), version, self._read(size))[1]

    def call(self, message: Any, version: int) -> Any:
        """Send a request and return its answer."""
        self.send(message, version)
        return self.receive()

    def has_answer(self, timeout_s: float) -> bool:
        """Whether an answer comes in that time."""
        return bool(select.select([self.socket], [], [], timeout_s)[0])

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def _read(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            chunk = self.socket.recv(size - len(taken))
            if not chunk:
                raise EOFError("the broker closed the connection")
            taken += chunk
        return bytes(taken)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
