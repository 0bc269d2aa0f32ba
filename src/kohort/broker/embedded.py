"""A broker inside another program: a thread and an event loop of its own, on real sockets.

with EmbeddedBroker(num_partitions=3) as broker:
    consumer = Consumer("orders", bootstrap_servers=broker.bootstrap_servers)
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kohort.broker.broker import Broker
from kohort.model.setting import value_text
from kohort.net.event_loop import new_event_loop
from kohort.node.configuration.config import find_broker_setting

if TYPE_CHECKING:
    from kohort.broker.secured_listener import ClientSettings, SecuredListener


class EmbeddedBroker:
    """One broker, from `start` (or `with`) to `stop`. It may be started again, on the same directory and port.

    Settings are Kafka's, with underscores for dots: `group_initial_rebalance_delay_ms=0`. Without `data_dir` the
    broker uses a directory of its own, which `stop` removes. `assignors` are server-side assignors besides the built-in
    ones: names, assignors or functions of a GroupSpec. `compatible="kafka-4.3"` switches off what improves on that
    version of Apache Kafka. With `security_protocol`, and `sasl_mechanism` and `users` for SASL, its listener has
    certificates and users of its own; `client_settings`, `java_properties` and `librdkafka_settings` are for clients.
    Its methods block for milliseconds and work inside a running event loop too. Raises TypeError for a setting that
    does not exist, SettingsError for a value that it cannot have.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        assignors: Iterable[object] = (),
        compatible: str | None = None,
        security_protocol: str | None = None,
        sasl_mechanism: str | None = None,
        users: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self._settings = {_name(name): value_text(value) or "" for name, value in settings.items()}
        self._secured: SecuredListener | None = None
        if security_protocol is not None:
            self._secure(security_protocol, sasl_mechanism, users, host)
        elif sasl_mechanism is not None or users is not None:
            raise TypeError("EmbeddedBroker: sasl_mechanism and users need security_protocol='SASL_SSL' or its kin")
        if compatible is not None:
            self._settings["kohort.compatible"] = compatible
        for name in self._settings:
            find_broker_setting(name)
        if isinstance(port, bool) or not isinstance(port, int):
            raise TypeError(f"EmbeddedBroker: port={port!r} is no whole number")
        if isinstance(assignors, str):
            raise TypeError(f"EmbeddedBroker: assignors={assignors!r} is a str: expected a list")
        self._host = host
        self._port = port
        self._assignors = tuple(assignors)
        self.data_dir = tempfile.mkdtemp(prefix="kohort-") if data_dir is None else os.fspath(data_dir)
        self._process = os.getpid()
        self._remove = weakref.finalize(self, _remove, self.data_dir, self._process) if data_dir is None else None
        self.broker = self._made()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for clients; known once the broker has started."""
        return f"{self.broker.address[0]}:{self.broker.address[1]}"

    def _secure(self, protocol: str, mechanism: str | None, users: Mapping[str, str] | None, host: str) -> None:
        """Have one listener with TLS, a login, or both."""
        from kohort.broker.secured_listener import SecuredListener

        if "listeners" in self._settings:
            raise TypeError("EmbeddedBroker: give either listeners or security_protocol")
        self._files = tempfile.TemporaryDirectory(prefix="kohort-security-")
        client_auth = self._settings.pop("ssl.client.auth", "none")
        self._secured = SecuredListener(Path(self._files.name), protocol, mechanism, users, (host,), client_auth)
        self._settings = {**self._secured.settings, **self._settings, "listeners": f"{protocol}://{host}:0"}

    @property
    def security(self) -> SecuredListener:
        """The certificates, users and tokens of a broker that was given a `security_protocol`."""
        if self._secured is None:
            raise TypeError("this EmbeddedBroker was given no security_protocol")
        return self._secured

    @property
    def client_settings(self) -> ClientSettings:
        """Arguments of `Consumer`, `Producer` and `Admin`, with what they need to log in."""
        if self._secured is None:
            return {"bootstrap_servers": self.bootstrap_servers}
        return self._secured.client_settings(self.bootstrap_servers)

    @property
    def java_properties(self) -> dict[str, str]:
        """The same for Java's clients and Kafka's command line tools."""
        if self._secured is None:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self._secured.java_properties(self.bootstrap_servers)

    @property
    def librdkafka_settings(self) -> dict[str, Any]:
        """The same for librdkafka, as confluent-kafka takes them."""
        if self._secured is None:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self._secured.librdkafka_settings(self.bootstrap_servers)

    @property
    def is_running(self) -> bool:
        """Whether the broker has started and was not stopped."""
        return self._thread is not None

    def start(self) -> EmbeddedBroker:
        """Start the broker and return once clients can connect. Raises StorageError, OSError."""
        self._check_caller()
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
        # Where it listens is stored for the next start.
        self._port = self.broker.address[1]
        self._settings["listeners"] = value_text(self.broker.config.listeners) or ""
        return self

    def stop(self) -> None:
        """Stop the broker clean; its directory stays, unless it was the broker's own."""
        self._check_caller()
        if self._thread is not None:
            self._call(self.broker.stop())
            self._end()
        if self._remove is not None:
            _remove(self.data_dir, self._process)

    def kill(self) -> None:
        """End the broker as `kill -9` would. `start` brings it back with what was acknowledged."""
        self._check_caller()
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
        loop.run_until_complete(asyncio.sleep(0))  # Connections that were closed a moment ago let go of their sockets.
        loop.close()

    def _made(self) -> Broker:
        return Broker(self.data_dir, self._host, self._port, self._settings, assignors=self._assignors)

    def _check_caller(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(
                f"this broker runs in process {self._process}, and os.fork() does not take its thread along to process"
                f" {os.getpid()}: start, stop and kill it where it was made"
            )
        if threading.current_thread() is self._thread:
            raise RuntimeError("a broker's own thread, which runs assignors and callbacks, cannot start or stop it")

    def _call(self, coroutine: Any) -> None:
        assert self._loop is not None, "the loop runs"
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        assert loop is not None, "the loop runs"
        assert thread is not None, "the loop runs"
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        self._loop = self._thread = None
        self.broker = self._made()


def _remove(data_dir: str, process: int) -> None:
    """Remove a broker's directory, but not where a process that was forked off ends."""
    if os.getpid() == process:
        shutil.rmtree(data_dir, ignore_errors=True)


def _name(argument: str) -> str:
    """Return the setting that an argument names: with underscores for dots, or as it is where it has dots."""
    return argument if "." in argument else argument.replace("_", ".")
