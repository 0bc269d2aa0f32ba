"""Workers of a Kafka Connect cluster, each in a process of its own with a REST interface on a port of its own."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from interop import jars
from interop.ports import free_port
from interop.process import Child
from interop.waiting import eventually

POM = "connect-pom.xml"
SETTINGS = {
    "plugin.discovery": "service_load",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": "500",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "1000",
    "consumer.metadata.max.age.ms": "2000",
}
START_S = 90
_ASSIGNED = re.compile(r"Joined group at generation (\d+) with protocol version (\d+) and got assignment: (.*)")


class Joined(NamedTuple):
    """One assignment, as its worker logged it."""

    generation: int
    version: int
    """Of Connect's protocol: 0 eager, 1 compatible, 2 sessioned."""
    text: str

    @property
    def delay_ms(self) -> int:
        """For how long tasks of a worker that is gone wait for its return."""
        found = re.search(r"delay=(\d+)", self.text)
        return int(found.group(1)) if found else 0


class Cluster:
    """What the workers of one Connect cluster have in common: the broker, a name and a folder for their files."""

    def __init__(self, bootstrap: str, name: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.folder = folder
        self.started: list[Worker] = []

    @property
    def group_id(self) -> str:
        """The group of the workers."""
        return f"connect-{self.name}"

    def start(self, settings: Mapping[str, str] | None = None, *, version: str = "", port: int = 0) -> Worker:
        """Start a worker, of another version of Kafka than the pom's where one is given."""
        worker = Worker(self, len(self.started) + 1, settings or {}, f"{POM}@{version}" if version else POM, port)
        self.started.append(worker)
        return worker


class Worker:
    """One worker; `child` is its process."""

    def __init__(self, cluster: Cluster, number: int, settings: Mapping[str, str], pom: str, port: int) -> None:
        self.port = port or free_port()
        everything = {
            **SETTINGS,
            "bootstrap.servers": cluster.bootstrap,
            "group.id": cluster.group_id,
            "listeners": f"http://127.0.0.1:{self.port}",
        }
        for topic in ("config", "offset", "status"):
            everything[f"{topic}.storage.topic"] = f"{cluster.name}-{topic}"
            everything[f"{topic}.storage.replication.factor"] = "1"
        everything |= settings
        file = cluster.folder / f"worker-{number}.properties"
        file.write_text("\n".join(f"{name}={value}" for name, value in everything.items()) + "\n")
        program = jars.command("org.apache.kafka.connect.cli.ConnectDistributed", str(file), pom=pom)
        program.insert(1, "-Dlog.level=INFO")
        self.child = Child(program, cluster.folder / f"worker-{number}.log")

    @property
    def id(self) -> str:
        """How Connect names it."""
        return f"127.0.0.1:{self.port}"

    def ready(self) -> Worker:
        """Wait until it answers."""
        eventually(lambda: "version" in self.call("GET", ""), True, START_S)
        return self

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Call its REST interface; while it starts, or the cluster rebalances, the answer is empty."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", method=method)
        request.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=60) as answer:
                return dict(json.load(answer))
        except (urllib.error.URLError, ConnectionError):
            assert body is None, f"worker did not take {path}"
            return {}

    def units(self, connectors: Sequence[str]) -> list[tuple[str, str]]:
        """Return the state and the worker of every connector and task."""
        found: list[tuple[str, str]] = []
        for connector in connectors:
            status = self.call("GET", f"connectors/{connector}/status")
            parts = (status.get("connector"), *status.get("tasks", ()))
            found += [(each["state"], each["worker_id"]) for each in parts if each]
        return found

    def states(self, connectors: Sequence[str]) -> Counter[str]:
        """Return how many connectors and tasks are in which state."""
        return Counter(state for state, _ in self.units(connectors))

    def joined(self) -> list[Joined]:
        """Return its assignments so far."""
        found = _ASSIGNED.findall(self.child.text())
        return [Joined(int(generation), int(version), text) for generation, version, text in found]


@contextmanager
def connect_cluster(bootstrap: str, name: str, folder: Path) -> Iterator[Cluster]:
    """Yield a Connect cluster without workers; those that are started end with the block."""
    cluster = Cluster(bootstrap, name, folder)
    try:
        yield cluster
    except BaseException as error:
        error.add_note("\n".join(each.child.text()[-3000:] for each in cluster.started))
        raise
    finally:
        for each in cluster.started:
            each.child.stop()


def source_of(file: Path, topic: str) -> dict[str, str]:
    """Return the settings of a connector that reads a file's lines."""
    connector = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    return {"connector.class": connector, "tasks.max": "1", "file": str(file), "topic": topic}


def sink_of(file: Path, topic: str, tasks: int = 2) -> dict[str, str]:
    """Return the settings of a connector that appends a topic's records to a file."""
    connector = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    return {"connector.class": connector, "tasks.max": str(tasks), "file": str(file), "topics": topic}


def written(sink: Path) -> set[str]:
    """Return the lines of a file that may not be there yet."""
    return set(sink.read_text().splitlines()) if sink.exists() else set()
