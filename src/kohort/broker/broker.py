"""One broker process: a node, the network and a real disk, put together and taken apart."""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from kohort.broker.descriptors import budget
from kohort.broker.os_disk import OsDisk
from kohort.broker.server_assignors import load_assignors
from kohort.net.server import Clock, Server
from kohort.node.configuration.config import Config, ConfigError
from kohort.node.node import Node

log = logging.getLogger("kohort.broker")

_LISTENER = re.compile(r"(?:(?:PLAINTEXT|SASL_PLAINTEXT)://)?(\[[0-9a-fA-F:]+\]|[^:/\[\],]*):(\d+)")
_EVERYWHERE = ("", "0.0.0.0", "::")


def parse_address(setting: str, text: str) -> tuple[str, int]:
    """Return host and port of `PLAINTEXT://HOST:PORT` or `HOST:PORT`. Raises ConfigError."""
    match = _LISTENER.fullmatch(text.strip())
    if match is None or int(match[2]) > 65535:
        raise ConfigError(f"invalid value {text!r} for {setting}: expected PLAINTEXT://HOST:PORT")
    return match[1].strip("[]"), int(match[2])


class Broker:
    """One broker. `host`, `port` and `advertised` (HOST:PORT) go before the settings of the same meaning.

    `assignors` are server-side assignors besides those of `group.consumer.assignors`: names, assignors or functions.
    `compatible="kafka-4.3"` switches off what improves on that version of Apache Kafka.
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
    ) -> None:
        named = {} if compatible is None else {"kohort.compatible": compatible}
        self.config = Config({**(settings or {}), **named})
        self.assignors = load_assignors(self.config.group_consumer_assignors, assignors)
        listening = parse_address("listeners", self.config.listeners)
        self._host = listening[0] if host is None else host
        self._port = listening[1] if port is None else port
        advertised_text = advertised or self.config.advertised_listeners
        self._advertised = parse_address("advertised.listeners", advertised_text) if advertised_text else None
        self.data_dir = Path(data_dir)
        self.node: Node | None = None
        self.address = (self._host, self._port)
        """Where the broker listens, with the real port once it has started."""
        self._disk = OsDisk(self.data_dir)
        self.server: Server | None = None

    async def start(self) -> None:
        """Replay the data directory and listen. Raises StorageError, also when another broker has it, and OSError."""
        clock = Clock()
        self._disk.lock()
        descriptors = budget()
        self._disk.open_limit = descriptors.files
        try:
            self.node = Node(self.config, self._disk, os.urandom, clock.now_ms(), self.assignors, _elapsed_us)
            self.node.connections.limit.derive(descriptors.connections, descriptors.limit)
            self.node.start(clock.now_ms())
            self.server = Server(self.node, clock)
            port = await self.server.bind(self._host, self._port)
            self.address = (self._host, port)
            self.node.context.advertised = self._advertised or (_reachable(self._host), port)
            # DescribeConfigs shows what Kafka's server.properties would have.
            self.config.note_static(
                node_id=str(self.config.node_id),
                listeners=_listener(self._host, port),
                advertised_listeners=_listener(*self.node.context.advertised),
            )
            self.server.serve()
        except BaseException:
            self._disk.close()
            raise

    async def stop(self) -> None:
        """Close connections and files so that the next start has nothing to recover."""
        assert self.server is not None, "the broker runs"
        assert self.node is not None, "the broker runs"
        await self.server.stop()
        self.node.stop(self.server.clock.now_ms())
        self._disk.close()

    def kill(self) -> None:
        """Drop everything as it is, as `kill -9` would: nothing is flushed or sent."""
        assert self.server is not None, "the broker runs"
        self.server.abandon()
        for client in list(self.server.clients):
            client.abort()
        self._disk.abandon()


def _elapsed_us() -> int:
    return time.perf_counter_ns() // 1_000


def _listener(host: str, port: int) -> str:
    return f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}"


def _reachable(host: str) -> str:
    return socket.gethostname() if host in _EVERYWHERE else host
