"""One real Apache Kafka broker on loopback, with fresh data: a context manager, and a command for a terminal.

    python -m interop.kafka [KEY=VALUE ...]     runs one until Ctrl-C and prints its address

KEY=VALUE are broker properties and win over the defaults below.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from interop import jars
from interop.ports import free_port
from interop.process import Child, until_interrupted

READY = "Kafka Server started"
DEFAULTS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    # One node holds every copy.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Fewer internal partitions, so the first request to a coordinator is not held up by their creation.
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.num.partitions": "8",
    # No pause before the first rebalance of an empty group.
    "group.initial.rebalance.delay.ms": "0",
}


class Quorum(NamedTuple):
    """The place of a node in its cluster: who it is, and the controllers' ports by node, which are known before."""

    cluster_id: str
    node_id: int
    controllers: Mapping[int, int]

    @staticmethod
    def of(count: int) -> list[Quorum]:
        """Return the places of a new cluster's nodes, from 1 on, each of which is broker and controller."""
        cluster_id = "A" + base64.urlsafe_b64encode(os.urandom(16)).decode()[1:22]
        controllers = {node_id: free_port() for node_id in range(1, count + 1)}
        return [Quorum(cluster_id, node_id, controllers) for node_id in controllers]


class ApacheKafka:
    """A real broker (KRaft, combined roles). Raises `Unavailable` when Java or its jars cannot be had.

    `listeners` are security protocols, or NAME:PROTOCOL, each on a port of its own in `addresses`, by name; the first
    is `bootstrap`. Those in `advertised` advertise another address. `formatting` is added to the command that formats
    the storage, such as `--add-scram USER`. `pom` names the jars.
    """

    name = "apache"

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        heap: str = "1g",
        wait_s: float = 120,
        listeners: Sequence[str] = ("PLAINTEXT",),
        formatting: Sequence[str] = (),
        advertised: Mapping[str, str] | None = None,
        quorum: Quorum | None = None,
        pom: str = "pom.xml",
    ) -> None:
        self.pom = pom
        self.settings = dict(settings or {})
        self.protocols = {each.partition(":")[0]: each.rpartition(":")[2] for each in listeners}
        self.advertised = dict(advertised or {})
        self.quorum = quorum or Quorum.of(1)[0]
        self.formatting = tuple(formatting)
        self.addresses: dict[str, str] = {}
        self.heap = heap
        self.wait_s = wait_s
        self.ready_ms = 0.0
        self.bootstrap = ""
        self.directory = Path()
        self._command: list[str] = []
        self._starts = 0

    def start(self) -> Self:
        """Format fresh data, start the broker and return when it has logged its start."""
        class_path = jars.class_path(self.pom)
        java = jars.java()
        self.directory = Path(tempfile.mkdtemp(prefix="kohort-apache-kafka."))
        self.addresses = {name: f"127.0.0.1:{free_port()}" for name in self.protocols}
        first = next(iter(self.addresses))
        self.bootstrap = self.addresses[first]
        cluster_id, node_id, controllers = self.quorum
        properties = self.directory / "server.properties"
        listeners = {
            "node.id": str(node_id),
            "listeners": f"{_named(self.addresses)},CONTROLLER://127.0.0.1:{controllers[node_id]}",
            "advertised.listeners": _named({**self.addresses, **self.advertised}),
            "inter.broker.listener.name": first,
            "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in self.protocols.items())
            + ",CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{port}" for each, port in controllers.items()),
            "log.dirs": str(self.logs),
        }
        lines = [f"{key}={value}" for key, value in {**DEFAULTS, **listeners, **self.settings}.items()]
        properties.write_text("\n".join(lines) + "\n")
        format_storage = [
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster_id,
            "-c",
            str(properties),
            *self.formatting,
        ]
        command = jars.command(*format_storage, pom=self.pom)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(f"StorageTool format: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        collector = ["-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
        log = f"-Dlog4j2.configurationFile={jars.HERE / 'log4j2.properties'}"
        command = [java, f"-Xms{self.heap}", f"-Xmx{self.heap}", *collector, log, "-cp", class_path]
        self._command = [*command, "kafka.Kafka", str(properties)]
        try:
            self.restart()
        except RuntimeError:
            self.remove()
            raise
        return self

    def restart(self) -> None:
        """Start the broker on the data that it has, where it was before."""
        self._starts += 1
        self.child = Child(self._command, self.directory / f"broker-{self._starts}.log")
        self.ready_ms = 1000 * self.child.wait_for(lambda text: READY in text, "Apache Kafka", self.wait_s)

    @property
    def logs(self) -> Path:
        """The folder of the partition logs."""
        return self.directory / "data"

    def stop(self) -> None:
        """Stop the broker; its data stay until `remove`."""
        self.child.stop()

    def hang(self, seconds: float) -> None:
        """Let the broker answer nothing for a while; return when it goes on."""
        self.child.signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            self.child.signal(signal.SIGCONT)

    def remove(self) -> None:
        """Remove its data and logs."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.remove()


def _named(addresses: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


def main(arguments: list[str]) -> int:
    """Run one broker until interrupted."""
    settings = dict(argument.split("=", 1) for argument in arguments)
    with ApacheKafka(settings) as broker, until_interrupted():
        ready_ms = f"{broker.ready_ms:.0f} ms"
        print(f"Apache Kafka ready on {broker.bootstrap} after {ready_ms}, pid {broker.child.pid}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
