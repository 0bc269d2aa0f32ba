"""The HTTP server of the console: Uvicorn on a socket that is bound before, within the loop of the command."""

from __future__ import annotations

import asyncio
import socket
from contextlib import nullcontext
from typing import Any

from kohort.extras import install_command

try:
    import uvicorn
except ImportError as cause:
    raise ImportError(f"kohort console needs Uvicorn: {install_command('console')}") from cause

CONNECTIONS = 500
"""Open at a time; further ones are answered with 503."""


async def serve(app: Any, listening: socket.socket, until: asyncio.Future[None]) -> None:
    """Answer requests until `until` is over, or the caller is cancelled; open pages are cut off then.

    Raises the error of `until`.
    """
    config = uvicorn.Config(
        app,
        http="h11",
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
