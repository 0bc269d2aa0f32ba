"""Kafka Streams and Kafka Connect through gateways: an instance is killed, and nothing is lost or counted twice."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from interop.committed import read_committed
from interop.group import keyed
from interop.kafka import free_port
from interop.kohort_gateway import KohortGateway
from interop.process import Child
from interop.producers import produce
from interop.waiting import eventually
from tests.interop.lanes import Stage
from tests.interop.topics import create_topic

from interop import jars

pytestmark = [pytest.mark.timeout(300)]
STREAMS, CONNECT = "streams-pom.xml", "connect-pom.xml"
PARTITIONS, KEYS, RECORDS = 6, 20, 400
EACH = 2 * RECORDS // KEYS
GUARANTEES = [
    ("listener_of_three", "exactly_once_v2"),
    ("rewrite_of_three", "exactly_once_v2"),
    ("rewrite_of_three", "at_least_once"),
    ("rewrite_of_older", "exactly_once_v2"),
]


@pytest.mark.lane(45)
@pytest.mark.parametrize(("broker", "guarantee"), GUARANTEES)
@pytest.mark.capability("Kafka Streams", "{guarantee}, an instance is killed")
def test_streams_count_through_a_gateway(guarantee: str, stage: Stage) -> None:
    assert isinstance(stage.broker, KohortGateway)
    counts = f"{stage.name}-counts"
    for topic in (stage.name, counts):
        create_topic(stage.bootstrap, topic, PARTITIONS)
    with instances(stage, counts, guarantee) as start:
        produce("librdkafka", stage.bootstrap, stage.name, keyed(RECORDS, KEYS))
        first, _ = start(), start()
        upstream = stage.broker.upstream
        eventually(lambda: len(read_committed(upstream, counts, PARTITIONS)) > 0, True, 60)
        first.crash()
        start()
        produce("librdkafka", stage.bootstrap, stage.name, keyed(RECORDS, KEYS, RECORDS))

        def is_counted() -> bool:
            last = {each.key: int(each.value) for each in read_committed(upstream, counts, PARTITIONS)}
            return len(last) == KEYS and all(count >= EACH for count in last.values())

        eventually(is_counted, True, 90)
    if guarantee == "exactly_once_v2":
        assert {int(each.value) for each in read_committed(upstream, counts, PARTITIONS)} <= set(range(EACH + 1))


@contextmanager
def instances(stage: Stage, counts: str, guarantee: str) -> Iterator[Any]:
    """Return what starts an instance of the application; all are closed with the block."""
    program = jars.compiled("CountingStream", pom=STREAMS)
    started: list[Child] = []
    settings = [f"processing.guarantee={guarantee}", "session.timeout.ms=6000", "heartbeat.interval.ms=1000"]

    def start() -> Child:
        number = len(started)
        where = [stage.bootstrap, f"counting-{stage.name}", stage.name, counts, str(stage.folder / f"state-{number}")]
        command = jars.command("CountingStream", *where, *settings, classes=program, pom=STREAMS)
        started.append(Child(command, stage.folder / f"instance-{number}.log"))
        return started[-1]

    try:
        yield start
        for each in started:
            each.stop()
    finally:
        for each in started:
            if each.is_running:
                each.kill()


@pytest.mark.lane(60)
@pytest.mark.parametrize("broker", ["listener_of_three", "rewrite_of_three"])
@pytest.mark.capability("Kafka Connect", "distributed (sessioned), a worker is killed")
def test_connect_copies_a_file_through_a_gateway(stage: Stage) -> None:
    source, sink = stage.folder / "source.txt", stage.folder / "sink.txt"
    lines = [f"line {number}" for number in range(200)]
    source.write_text("\n".join(lines[:100]) + "\n")
    create_topic(stage.bootstrap, stage.name, PARTITIONS)
    with workers(stage) as (first, second):
        call(second.port, "PUT", "connectors/source/config", source_of(source, stage.name))
        call(second.port, "PUT", "connectors/sink/config", sink_of(sink, stage.name))
        eventually(lambda: written(sink), set(lines[:100]), 60)
        first.child.crash()
        with source.open("a") as more:
            more.write("\n".join(lines[100:]) + "\n")
        eventually(lambda: written(sink), set(lines), 60)
        eventually(lambda: states(second.port), Counter({"RUNNING": 5}), 60)


def source_of(file: Path, topic: str) -> dict[str, str]:
    """Return the settings of a connector that reads a file's lines."""
    connector = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    return {"connector.class": connector, "tasks.max": "1", "file": str(file), "topic": topic}


def sink_of(file: Path, topic: str) -> dict[str, str]:
    """Return the settings of a connector that appends a topic's records to a file, by two tasks."""
    connector = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    return {"connector.class": connector, "tasks.max": "2", "file": str(file), "topics": topic}


def written(sink: Path) -> set[str]:
    """Return the lines of a file that may not be there yet."""
    return set(sink.read_text().splitlines()) if sink.exists() else set()


def states(port: int) -> Counter[str]:
    """Return in which state how many connectors and tasks are."""
    found: Counter[str] = Counter()
    for connector in ("source", "sink"):
        status = call(port, "GET", f"connectors/{connector}/status")
        found.update(each["state"] for each in (status.get("connector"), *status.get("tasks", ())) if each)
    return found


class Worker:
    """A worker of a Connect cluster, with its REST interface on a port of its own."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.port = free_port()
        settings = {
            "bootstrap.servers": stage.bootstrap,
            "group.id": f"connect-{stage.name}",
            "listeners": f"http://127.0.0.1:{self.port}",
            "plugin.discovery": "service_load",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": "500",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "1000",
            "consumer.metadata.max.age.ms": "2000",
        }
        for topic in ("config", "offset", "status"):
            settings[f"{topic}.storage.topic"] = f"{stage.name}-{topic}"
            settings[f"{topic}.storage.replication.factor"] = "1"
        file = stage.folder / f"worker-{number}.properties"
        file.write_text("\n".join(f"{name}={value}" for name, value in settings.items()) + "\n")
        command = jars.command("org.apache.kafka.connect.cli.ConnectDistributed", str(file), pom=CONNECT)
        self.child = Child(command, stage.folder / f"worker-{number}.log")


@contextmanager
def workers(stage: Stage) -> Iterator[tuple[Worker, Worker]]:
    """Start a Connect cluster of two, which ends with the block."""
    started = Worker(stage, 1), Worker(stage, 2)
    try:
        for each in started:
            eventually(lambda port=each.port: "version" in call(port, "GET", ""), True, 90)  # type: ignore[misc]
        yield started
    except BaseException as error:
        error.add_note("\n".join(each.child.text()[-3000:] for each in started))
        raise
    finally:
        for each in started:
            each.child.stop()


def call(port: int, method: str, path: str, body: object = None) -> dict[str, Any]:
    """Call a worker's REST interface; while a worker starts, or the cluster rebalances, the answer is empty."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", method=method)
    request.add_header("Content-Type", "application/json")
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, data, timeout=60) as answer:
            return dict(json.load(answer))
    except (urllib.error.URLError, ConnectionError):
        assert body is None, f"worker did not take {path}"
        return {}
