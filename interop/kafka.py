"""One real Apache Kafka broker on loopback, with fresh data: a context manager, and a command for a terminal.

    python -m interop.kafka [KEY=VALUE ...]     runs one until Ctrl-C and prints its address

KEY=VALUE are broker properties and win over the defaults below.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from interop import jars
from interop.process import Child, until_interrupted

READY = "Kafka Server started"
DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
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


def free_port() -> int:
    """Return a loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ApacheKafka:
    """A real broker (KRaft, combined roles). Raises `Unavailable` when Java or its jars cannot be had.

    `listeners` are security protocols, each on a port of its own in `addresses`; the first is `bootstrap`. `formatting`
    is added to the command that formats the storage, such as `--add-scram USER`. `pom` names the jars.
    """

    name = "apache"

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        heap: str = "1g",
        wait_s: float = 60,
        listeners: Sequence[str] = ("PLAINTEXT",),
        formatting: Sequence[str] = (),
        pom: str = "pom.xml",
    ) -> None:
        self.pom = pom
        self.settings = dict(settings or {})
        self.listeners = tuple(listeners)
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
        controller = free_port()
        self.addresses = {protocol: f"127.0.0.1:{free_port()}" for protocol in self.listeners}
        self.bootstrap = self.addresses[self.listeners[0]]
        named = ",".join(f"{protocol}://{address}" for protocol, address in self.addresses.items())
        properties = self.directory / "server.properties"
        listeners = {
            "listeners": f"{named},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": named,
            "inter.broker.listener.name": self.listeners[0],
            "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in self.listeners)
            + ",CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.logs),
        }
        lines = [f"{key}={value}" for key, value in {**DEFAULTS, **listeners, **self.settings}.items()]
        properties.write_text("\n".join(lines) + "\n")
        cluster = "A" + base64.urlsafe_b64encode(os.urandom(16)).decode()[1:22]
        format_storage = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties), *self.formatting]
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


def main(arguments: list[str]) -> int:
    """Run one broker until interrupted."""
    settings = dict(argument.split("=", 1) for argument in arguments)
    with ApacheKafka(settings) as broker, until_interrupted():
        ready_ms = f"{broker.ready_ms:.0f} ms"
        print(f"Apache Kafka ready on {broker.bootstrap} after {ready_ms}, pid {broker.child.pid}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
