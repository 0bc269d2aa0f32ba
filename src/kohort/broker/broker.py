"""One broker process: a node, the network and a real disk, put together and taken apart.

What is loaded at its first use delays all clients: the coordinator at the first request for a group, a module and a
decoder at the first of each API, and the garbage collector goes through all of it in each full collection. So `kohort
broker` loads it in steps after it is ready; an embedded broker, which shares its process, does not.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.broker.descriptors import budget
from kohort.broker.os_disk import DiskWatch, OsDisk
from kohort.broker.server_assignors import load_assignors
from kohort.model.setting import SettingsError
from kohort.net.renewed_context import CertificateError, listener_tls
from kohort.net.server import Clock, Server
from kohort.node.apis.routes import MODULES, served
from kohort.node.configuration.config import Config
from kohort.node.configuration.listeners import Address, Listener, endpoint, listeners_of
from kohort.node.node import Node
from kohort.wire.apis import VERSIONS
from kohort.wire.compression import Compression, CompressionUnavailable, compress

if TYPE_CHECKING:
    from kohort.broker.broker_metrics import BrokerMetrics
    from kohort.broker.json_web_tokens import JsonWebKeys


_PARTS = (
    "kohort.group.classic.machine",
    "kohort.group.consumer.machine",
    "kohort.group.migration.conversion",
    "kohort.group.decisions",
    "kohort.log.offsets_topic",
    "kohort.node.groups.event_topic",
    "kohort.node.groups.coordinator",
    "kohort.transaction.decisions",
    "kohort.node.transaction_coordinator",
)


def prepare(node: Node) -> Iterator[None]:
    """Load in steps what the node has not loaded yet; then exempt all that is there from garbage collection."""
    for name in (*_PARTS, *(f"kohort.node.apis.{module}" for module in dict.fromkeys(MODULES.values()))):
        import_module(name)
        yield
    for api in served():
        node.connections.routes.get(api, VERSIONS[api].highest)
        yield
    for codec in Compression:
        with suppress(CompressionUnavailable):
            compress(codec, b"")
        yield
    gc.freeze()


log = logging.getLogger("kohort.broker")

_EVERYWHERE = ("", "0.0.0.0", "::")


class Broker:
    """One broker. `host`, `port` and `advertised` (HOST:PORT) go before the settings of the first listener.

    `assignors` are server-side assignors besides those of `group.consumer.assignors`: names, assignors or functions.
    `compatible="kafka-4.3"` switches off what improves on that version of Apache Kafka. Prometheus' metrics are served
    at `metrics`, if anywhere.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        host: str | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        advertised: str | None = None,
        assignors: Iterable[object] = (),
        compatible: str | None = None,
        metrics: tuple[str, int] | None = None,
    ) -> None:
        named = {} if compatible is None else {"kohort.compatible": compatible}
        if advertised is not None:
            named["advertised.listeners"] = advertised
        self.config = Config({**(settings or {}), **named})
        self.assignors = load_assignors(self.config.group_consumer_assignors, assignors)
        self.listeners = listeners_of(self.config)
        """The listeners, the first of them first, with their real ports once the broker has started."""
        first = self.listeners[0]
        first.address = (first.address[0] if host is None else host, first.address[1] if port is None else port)
        self.config.note_static(listeners=_text((each.name, each.address) for each in self.listeners))
        self.data_dir = Path(data_dir)
        self.node: Node | None = None
        self._disk = OsDisk(self.data_dir)
        self._watch = DiskWatch(self._disk)
        self.server: Server | None = None
        self.metrics: BrokerMetrics | None = None
        self._metrics_address = metrics
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def address(self) -> tuple[str, int]:
        """Where the first listener is, with the real port once the broker has started."""
        return self.listeners[0].address

    async def start(self) -> None:
        """Replay the data directory and listen.

        Raises StorageError, also when another broker has it, OSError, and SettingsError for certificates.
        """
        clock = Clock()
        self._disk.lock()
        descriptors = budget()
        self._disk.open_limit = descriptors.files
        try:
            keys = {each.name: _keys(each) for each in self.listeners if "OAUTHBEARER" in each.mechanisms}
            self.node = Node(
                self.config,
                self._disk,
                os.urandom,
                clock.now_ms(),
                self.assignors,
                _elapsed_us,
                claims={name: each.claims for name, each in keys.items()},
            )
            self._tasks = [asyncio.create_task(each.refresh_until_cancelled()) for each in keys.values()]
            self.node.connections.limit.derive(descriptors.connections, descriptors.limit)
            self.node.start(clock.now_ms())
            self.server = Server(self.node, clock)
            self.listeners = self.node.context.listeners
            for listener in self.listeners:
                await self._bind(self.server, listener)
            # DescribeConfigs shows what Kafka's server.properties would have.
            self.config.note_static(
                node_id=str(self.config.node_id),
                listeners=_text((each.name, each.address) for each in self.listeners),
                advertised_listeners=_text((each.name, each.advertised) for each in self.listeners),
                listener_security_protocol_map=",".join(f"{each.name}:{each.protocol}" for each in self.listeners),
            )
            if self._metrics_address is not None:
                from kohort.broker.broker_metrics import BrokerMetrics

                self.metrics = BrokerMetrics(self.node, self.data_dir)
                await self.metrics.start(*self._metrics_address)
            self.server.serve()
            self._watch.start()
        except BaseException:
            self._end_tasks()
            self._disk.close()
            raise

    def prepare(self) -> Iterator[None]:
        """Load in steps what requests need at their first use, for a process that does nothing else."""
        assert self.node is not None, "the broker runs"
        return prepare(self.node)

    def _end_tasks(self) -> None:
        self._watch.stop()
        if self.metrics is not None:
            self.metrics.stop()
        for task in self._tasks:
            task.cancel()

    async def _bind(self, server: Server, listener: Listener) -> None:
        try:
            tls = listener_tls(listener) if listener.has_tls else None
        except CertificateError as error:
            raise SettingsError(str(error)) from None
        host = listener.address[0]
        port = await server.bind(listener, tls)
        if listener.advertised == listener.address:
            listener.advertised = (_reachable(host), port)
        listener.address = (host, port)

    async def stop(self) -> None:
        """Close connections and files so that the next start has nothing to recover."""
        assert self.server is not None, "the broker runs"
        assert self.node is not None, "the broker runs"
        self._end_tasks()
        await self.server.stop()
        self.node.stop(self.server.clock.now_ms())
        self._disk.close()

    def kill(self) -> None:
        """Drop everything as it is, as `kill -9` would: nothing is flushed or sent."""
        assert self.server is not None, "the broker runs"
        self._end_tasks()
        self.server.abandon()
        for client in list(self.server.clients):
            client.abort()
        self._disk.abandon()


def _keys(listener: Listener) -> JsonWebKeys:
    from kohort.broker.json_web_tokens import JsonWebKeys

    settings = listener.bearer
    url = settings.sasl_oauthbearer_jwks_endpoint_url
    assert url is not None, "a listener that offers OAUTHBEARER has keys"
    return JsonWebKeys(url, settings.sasl_oauthbearer_jwks_endpoint_refresh_ms)


def _elapsed_us() -> int:
    return time.perf_counter_ns() // 1_000


def _text(endpoints: Iterable[tuple[str, Address]]) -> str:
    return ",".join(endpoint(name, address) for name, address in endpoints)


def _reachable(host: str) -> str:
    return socket.gethostname() if host in _EVERYWHERE else host
