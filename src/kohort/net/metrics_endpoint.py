"""HTTP endpoint of a process that Prometheus scrapes: one request for each connection, and nothing but reading."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from kohort.model.exposition import MetricFamily, exposition

PLAIN_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPEN_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

REQUEST_BYTES = 8_192
REQUEST_SECONDS = 5.0
MOST_REQUESTS = 32
"""Requests that are served at the same time; more are refused."""


class MetricsEndpoint:
    """A listening HTTP socket: `GET /metrics`; `/live`; `/ready`, which is 503 where new clients are of no use.

    The metrics are OpenMetrics where the request accepts that. `unready` returns why no client should come, or an
    empty text.
    """

    def __init__(self, families: Callable[[], Iterable[MetricFamily]], unready: Callable[[], str] = lambda: "") -> None:
        self._families = families
        self._unready = unready
        self.port: int | None = None
        """Where it listens."""
        self._server: asyncio.Server | None = None
        self._requests = 0

    async def listen(self, host: str, port: int) -> None:
        """Listen. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES)
        self.port = int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._requests += 1
        try:
            if self._requests <= MOST_REQUESTS:
                async with asyncio.timeout(REQUEST_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no request that can be answered
        finally:
            self._requests -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            status, content, text = "405 Method Not Allowed", "text/plain", "GET and HEAD only\n"
        elif path == b"/metrics":
            is_open = b"application/openmetrics-text" in head.lower()
            status, content = "200 OK", OPEN_TYPE if is_open else PLAIN_TYPE
            text = exposition(self._families(), is_open=is_open)
        elif path == b"/live":
            status, content, text = "200 OK", "text/plain", "live\n"
        elif path == b"/ready":
            unready = self._unready()
            status, content = "503 Service Unavailable" if unready else "200 OK", "text/plain"
            text = f"{unready or 'ready'}\n"
        else:
            status, content, text = "404 Not Found", "text/plain", "there are /metrics, /live and /ready\n"
        body = text.encode("utf-8", "backslashreplace")
        lines = (f"HTTP/1.1 {status}", f"Content-Type: {content}", f"Content-Length: {len(body)}", "Connection: close")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if method == b"HEAD" else body)
