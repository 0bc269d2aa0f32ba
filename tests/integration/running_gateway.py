"""A gateway in a thread and an event loop of its own, in front of a broker of the test."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from interop.ports import free_port

from kohort.gateway.gateway_settings import GatewaySettings, Mode, read_settings_file
from kohort.gateway.server.gateway_server import GatewayServer
from kohort.gateway.server.node_port import NodePort
from kohort.gateway.server.settings_reload import SettingsSource
from kohort.net.event_loop import new_event_loop


class RunningGateway:
    """A gateway in mode `rewrite`, with a port for node 1; `changes` are settings, and others stand in `file`."""

    def __init__(self, bootstrap_servers: str, file: Path | None = None, **changes: Any) -> None:
        self.port, self.node_port = free_port(), free_port()
        settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "mode": Mode.REWRITE,
            "advertised": (f"127.0.0.1:{self.port}",),
            "listen_host": "127.0.0.1",
            "node_ports": {1: self.node_port},
            "drain_ms": 100,
            "assignor_ms": 10_000,  # an assignor that is late on a busy machine would leave a test to the leader
        }
        self._given = {**settings, **changes}
        self.source = None if file is None else SettingsSource(file, lambda: self._read(file))
        self.settings = self._read(file)
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gateway", daemon=True)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin."""
        return self.settings.advertised[0]

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.server = self.call(self._made())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call(self.server.stop())
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _read(self, file: Path | None) -> GatewaySettings:
        return GatewaySettings(**{**self._given, **({} if file is None else read_settings_file(file))})

    async def _made(self) -> GatewayServer:
        server = GatewayServer(self.settings, self.source)
        await server.start()
        return server

    def call(self, coroutine: Any) -> Any:
        """Run a coroutine in the gateway's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def ports(self) -> list[NodePort]:
        """Return the ports that the gateway listens on."""
        return list(self.server.ports.open.values())
