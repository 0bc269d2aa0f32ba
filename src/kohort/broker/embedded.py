"""A broker inside another program: a thread and an event loop of its own, on real sockets.

with EmbeddedBroker(num_partitions=3) as broker:
    consumer = Consumer("orders", bootstrap_servers=broker.bootstrap_servers)
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from kohort.broker.broker import Broker
from kohort.net.loop import new_event_loop


class EmbeddedBroker:
    """One broker, from `start` (or `with`) to `stop`. It may be started again, on the same directory and port.

    Settings are Kafka's, with underscores for dots: `group_initial_rebalance_delay_ms=0`. Without `data_dir` the
    broker uses a directory of its own, which `stop` removes. `assignors` are server-side assignors besides the built-in
    ones: names, assignors or functions of a GroupSpec. Raises ConfigError for an unknown or ill-typed setting.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        assignors: Iterable[object] = (),
        **settings: Any,
    ) -> None:
        self._own_dir = tempfile.TemporaryDirectory(prefix="kohort-") if data_dir is None else None
        self.data_dir = os.fspath(data_dir) if data_dir is not None else str(self._own_dir and self._own_dir.name)
        self._host = host
        self._port = port
        self._settings = {name.replace("_", "."): _text(value) for name, value in settings.items()}
        self.broker = Broker(self.data_dir, host, port, self._settings, assignors=assignors)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for clients; known once the broker has started."""
        return f"{self.broker.address[0]}:{self.broker.address[1]}"

    @property
    def is_running(self) -> bool:
        """Whether the broker has started and was not stopped."""
        return self._thread is not None

    def start(self) -> EmbeddedBroker:
        """Start the broker and return once clients can connect. Raises StorageError, OSError."""
        if self._thread is not None:
            return self
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="kohort-broker", daemon=True)
        self._thread.start()
        try:
            self._call(self.broker.start())
        except BaseException:
            self._end()
            raise
        self._port = self.broker.address[1]
        return self

    def stop(self) -> None:
        """Stop the broker clean; its directory stays, unless it was the broker's own."""
        if self._thread is not None:
            self._call(self.broker.stop())
            self._end()
        if self._own_dir is not None:
            self._own_dir.cleanup()

    def kill(self) -> None:
        """End the broker as `kill -9` would. `start` brings it back with what was acknowledged."""
        if self._thread is not None:
            self._call(self._kill())
            self._end()

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _kill(self) -> None:
        self.broker.kill()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    def _call(self, coroutine: Any) -> None:
        assert self._loop is not None, "the loop runs"
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        assert loop is not None, "the loop runs"
        assert thread is not None, "the loop runs"
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        self._loop = self._thread = None
        self.broker = Broker(self.data_dir, self._host, self._port, self._settings)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
