"""The HTTP server: a browser that takes nothing of what is sent is reset, and gives its place back."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from kohort.console.web import http_server

PART = b"x" * 100_000


async def endless(_scope: Any, receive: Any, send: Any) -> None:
    """Send parts until the browser is gone."""
    await receive()
    gone = asyncio.ensure_future(receive())
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while not gone.done():
        await send({"type": "http.response.body", "body": PART, "more_body": True})
        await asyncio.sleep(0)


def read_to_end(browser: socket.socket) -> None:
    while browser.recv(1 << 20):
        pass


def test_a_browser_that_takes_nothing_is_reset(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_server, "BLOCKED_S", 0.05)

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            until: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            is_over = asyncio.Event()

            async def app(scope: Any, receive: Any, send: Any) -> None:
                await endless(scope, receive, send)
                is_over.set()

            serving = asyncio.create_task(http_server.serve(app, listening, until))
            with socket.create_connection(listening.getsockname()) as browser:
                browser.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                await is_over.wait()
                with pytest.raises(ConnectionResetError):
                    read_to_end(browser)
            until.set_result(None)
            await serving

    asyncio.run(asyncio.wait_for(scenario(), 20))
    assert "took nothing for" in caplog.text
