"""A proxy in front of an object store, with faults: requests are refused, held back, cut off or left unanswered.

Other requests are forwarded as they are, so that their signatures hold. It is a process of its own: delta-rs keeps the
interpreter's lock while it waits for a store.

    python -m interop.faulty_store STORE     obeys lines of its input: each is the list of faults from then on
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

REASONS = {403: "AccessDenied", 500: "InternalError", 503: "SlowDown", 507: "InsufficientStorage"}


@dataclass(slots=True)
class Fault:
    """What happens to requests of a method whose path has a text: to `left` of them, to all where that is None.

    A `status` is the answer of a request that is not forwarded; one that `is_held` is forwarded when the fault is over;
    else the connection is reset, before the request is forwarded or, where `is_done`, after it was carried out.
    """

    method: str
    text: str
    status: int = 0
    is_held: bool = False
    is_done: bool = False
    left: int | None = None


class FaultyStore:
    """A proxy on loopback for the store at `endpoint`, without faults until there are some."""

    def __init__(self, endpoint: str) -> None:
        self._command = [sys.executable, "-m", "interop.faulty_store", endpoint]

    @contextmanager
    def fault(self, method: str, text: str, **how: Any) -> Iterator[None]:
        """Have one fault within the block."""
        self._say([asdict(Fault(method, text, **how))])
        try:
            yield
        finally:
            self._say([])

    def await_request(self) -> None:
        """Return when a request has met the fault."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "met\n", "the proxy runs until it is left"

    def _say(self, faults: list[dict[str, object]]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(faults) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()) != "obeyed\n":
            assert line, "the proxy runs until it is left"

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.endpoint = self._process.stdout.readline().strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


class _Proxy(ThreadingHTTPServer):
    """The server, in its process."""

    daemon_threads = True

    def __init__(self, store: str) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.store = urlsplit(store).netloc
        self.faults: list[Fault] = []
        self.changed = threading.Condition()

    def meet(self, method: str, path: str) -> Fault | None:
        """Return the fault that a request meets; one that is held comes back when it is over."""
        with self.changed:
            for fault in self.faults:
                if fault.method == method and fault.text in path and fault.left != 0:
                    fault.left = None if fault.left is None else fault.left - 1
                    print("met", flush=True)
                    if not fault.is_held:
                        return fault
                    while fault in self.faults:
                        self.changed.wait()
                    return None
        return None

    def obey(self) -> None:
        """Take faults from the input until it ends."""
        for line in sys.stdin:
            with self.changed:
                self.faults = [Fault(**each) for each in json.loads(line)]
                self.changed.notify_all()
                print("obeyed", flush=True)


class _Request(BaseHTTPRequestHandler):
    """One request of a client, on a connection of its own."""

    protocol_version = "HTTP/1.1"
    server: _Proxy

    def parse_request(self) -> bool:
        """Parse a request, whatever its method is, and see to it."""
        if super().parse_request():
            with suppress(OSError):  # the client, or the store, is gone
                self._serve()
        return False

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""

    def _serve(self) -> None:
        body = self._body()
        self.close_connection = True
        fault = self.server.meet(self.command, self.path)
        if fault is None:
            self._answer(*self._forward(body))
        elif fault.status:
            reason = REASONS[fault.status]
            text = f"<Error><Code>{reason}</Code><Message>{reason}</Message></Error>".encode()
            self._answer(fault.status, [("Content-Type", "application/xml")], text)
        else:
            if fault.is_done:
                self._forward(body)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers
            pass
        return found

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return what the store answers."""
        connection = HTTPConnection(self.server.store, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect", "transfer-encoding", "content-length"):
                    connection.putheader(name, value)
            if body or self.command in ("PUT", "POST"):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        # The answer to a HEAD has the length of what a GET would return.
        length = {name.lower(): value for name, value in headers}.get("content-length")
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


if __name__ == "__main__":
    proxy = _Proxy(sys.argv[1])
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{proxy.server_address[1]}", flush=True)
    proxy.obey()
