"""The HTTP server of the console: Uvicorn on a socket that is bound before, within the loop of the command."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from contextlib import nullcontext
from typing import Any

from kohort.model.extras import install_command

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as cause:
    raise ImportError(f"kohort console needs Uvicorn: {install_command('console')}") from cause

CONNECTIONS = 500
"""Open at a time; further ones are answered with 503."""

BLOCKED_S = 20.0
"""How long a browser may take nothing of what is sent to it."""
SEND_BYTES = 1 << 17
"""What the kernel buffers of a connection, at most: its own limit is megabytes."""

log = logging.getLogger(__name__)


class _Connection(H11Protocol):  # type: ignore[misc]
    """A connection that is reset if its browser takes nothing: one that is closed waits until all was taken."""

    _reset: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reset = asyncio.get_running_loop().call_later(BLOCKED_S, self._abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def _cancel(self) -> None:
        if self._reset is not None:
            self._reset.cancel()

    def _abort(self) -> None:
        log.warning("the browser at %s took nothing for %.0f s: its connection was reset", self.client, BLOCKED_S)
        # Without this the kernel would buffer what was sent, and wait for the browser.
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


async def serve(app: Any, listening: socket.socket, until: asyncio.Future[None]) -> None:
    """Answer requests until `until` is over, or the caller is cancelled; open pages are cut off then.

    Raises the error of `until`.
    """
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)  # connections have it from here
    config = uvicorn.Config(
        app,
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=1,
        backlog=128,
    )
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # signals are the command's
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.wait([running, until], return_when=asyncio.FIRST_COMPLETED)
        if until.done():
            until.result()
    finally:
        server.should_exit = True
        await running
