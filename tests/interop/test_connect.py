"""Kafka Connect, distributed, on our broker and Apache Kafka: workers die, return, differ in version, change protocol.

KIP-415: connectors and tasks move by themselves, and those of a worker that is gone wait a delay for its return.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from interop.committed import read_committed
from interop.connect import Cluster, Worker, connect_cluster, sink_of, source_of, written
from interop.waiting import eventually
from tests.interop.explanations import assigned_works, explains, runs
from tests.interop.lanes import Stage
from tests.interop.topics import create_topic

from kohort.client.admin.admin import ResourceType
from kohort.sync import Admin
from kohort.wire.embedded_protocols import task_names

pytestmark = [pytest.mark.timeout(300)]
on_both = pytest.mark.parametrize("broker", ["kohort", "apache"])
OLDER = "3.9.1"
SINKS = 4
CONNECTORS = ("source", "sink")
UNITS = 2 + 1 + SINKS
"""Two connectors, the task of the source, and those of the sink."""
DELAY_MS = 4_000
EAGER, COMPATIBLE, SESSIONED = range(3)
"""The versions of the protocol, as workers log them."""


class Lines:
    """A file that a source connector reads, and one that a sink connector writes."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "source.txt"
        self.sink = folder / "sink.txt"
        self.all: list[str] = []

    def more(self, count: int) -> None:
        """Append so many lines to the source."""
        new = [f"line {len(self.all) + number}" for number in range(count)]
        with self.source.open("a") as file:
            file.write("\n".join(new) + "\n")
        self.all += new

    def await_written(self) -> None:
        """Wait until each line has reached the sink."""
        eventually(lambda: written(self.sink), set(self.all), 60)


def copying(stage: Stage, worker: Worker) -> Lines:
    """Copy a file through a topic by way of a worker."""
    lines = Lines(stage.folder)
    lines.more(100)
    create_topic(stage.bootstrap, stage.name, SINKS)
    worker.call("PUT", "connectors/source/config", source_of(lines.source, stage.name))
    worker.call("PUT", "connectors/sink/config", sink_of(lines.sink, stage.name, SINKS))
    lines.await_written()
    return lines


def spread(worker: Worker) -> Counter[str]:
    """Return how many connectors and tasks run at each worker; none while one of them does not run."""
    units = worker.units(CONNECTORS)
    if len(units) < UNITS or any(state != "RUNNING" for state, _ in units):
        return Counter()
    return Counter(where for _, where in units)


def described(admin: Admin, group_id: str) -> tuple[str, list[tuple[str, int]]]:
    """Return the leader's URL, and what all workers run, by what the group's description shows."""
    workers = [each.connect for each in admin.describe_groups([group_id])[group_id].members if each.connect]
    urls = {given.leader_url for _, given in workers}
    return "".join(urls), sorted(task for worker, given in workers for task in worker.running(given))


def protocol_of(stage: Stage, cluster: Cluster) -> str:
    """Return the name of the group's protocol."""
    with Admin(stage.bootstrap) as admin:
        return str(admin.describe_groups([cluster.group_id])[cluster.group_id].protocol)


@pytest.mark.lane(80)
@on_both
@pytest.mark.capability("Kafka Connect", "distributed (sessioned), 4.3.1 and 3.9.1, a worker is killed and returns")
def test_tasks_of_a_killed_worker_wait_for_its_return_and_then_move(stage: Stage) -> None:
    delayed = {"scheduled.rebalance.max.delay.ms": str(DELAY_MS)}
    with connect_cluster(stage.bootstrap, stage.name, stage.folder) as cluster:
        # The first one leads: a leader that comes new does not know what a killed worker had, and waits for none.
        newest = cluster.start(delayed).ready()
        older, third = cluster.start(delayed, version=OLDER), cluster.start(delayed)
        older.ready()
        third.ready()
        lines = copying(stage, newest)
        # How many of them each worker gets is Connect's to decide, and depends on who came first.
        eventually(lambda: len(spread(newest)), 3, 60)
        assert {each.joined()[-1].version for each in cluster.started} == {SESSIONED}
        with Admin(stage.bootstrap) as admin:
            both = [("sink", number) for number in range(-1, SINKS)] + [("source", number) for number in (-1, 0)]
            eventually(lambda: described(admin, cluster.group_id), (f"http://{newest.id}/", both), 30)
            for topic in ("config", "offset", "status"):
                name = f"{stage.name}-{topic}"
                assert admin.describe_configs(ResourceType.TOPIC, name)["cleanup.policy"].value == "compact"
        older.child.crash()
        lines.more(50)
        eventually(lambda: any(0 < each.delay_ms <= DELAY_MS for each in newest.joined()), True, 60)
        eventually(lambda: len(spread(newest)), 2, 60)
        lines.await_written()
        cluster.start(delayed, version=OLDER, port=older.port).ready()
        eventually(lambda: len(spread(newest)), 3, 60)
        lines.more(50)
        lines.await_written()
        works = assigned_works(stage, cluster.group_id)
        assert any(0 < each["delay_ms"] <= DELAY_MS for each in works) or not explains(stage)
        assert all(runs(each) == sorted(task_names(tuple(both))) for each in works[-1:])
        assert all(each["leader_url"] == f"http://{newest.id}/" for each in works)


@pytest.mark.lane(100)
@on_both
@pytest.mark.capability("Kafka Connect", "rolled from eager to compatible to sessioned")
def test_cluster_changes_its_protocol_worker_by_worker(stage: Stage) -> None:
    with connect_cluster(stage.bootstrap, stage.name, stage.folder) as cluster:
        workers = [cluster.start({"connect.protocol": "eager"}) for _ in range(2)]
        for each in workers:
            each.ready()
        lines = copying(stage, workers[0])
        eventually(lambda: len(spread(workers[0])), 2, 60)
        assert (protocol_of(stage, cluster), workers[0].joined()[-1].version) == ("default", EAGER)
        for name, version in (("compatible", COMPATIBLE), ("sessioned", SESSIONED)):
            for number, each in enumerate(workers):
                each.child.stop()
                workers[number] = cluster.start({"connect.protocol": name}, port=each.port).ready()
                lines.more(20)
                eventually(lambda: len(spread(workers[1])), 2, 60)
            assert protocol_of(stage, cluster) == name
            eventually(lambda: {each.joined()[-1].version for each in workers}, {version}, 30)
            lines.await_written()


@pytest.mark.lane(70)
@on_both
@pytest.mark.capability("Kafka Connect", "exactly-once source, its worker is killed")
def test_exactly_once_source_writes_each_line_once(stage: Stage) -> None:
    once = {"exactly.once.source.support": "enabled"}
    with connect_cluster(stage.bootstrap, stage.name, stage.folder) as cluster:
        first, second = cluster.start(once), cluster.start(once)
        first.ready()
        second.ready()
        lines = Lines(stage.folder)
        lines.more(200)
        create_topic(stage.bootstrap, stage.name, 1)
        first.call("PUT", "connectors/source/config", source_of(lines.source, stage.name))

        def copied() -> list[str]:
            return [each.value for each in read_committed(stage.bootstrap, stage.name, 1)]

        eventually(copied, lines.all, 60)
        for _ in range(2):
            (_, owner) = first.units(["source"])[-1] if first.child.is_running else second.units(["source"])[-1]
            killed = next(each for each in (first, second) if each.id == owner)
            lines.more(200)
            killed.child.crash()
            lines.more(200)
            eventually(copied, lines.all, 90)
            returned = cluster.start(once, port=killed.port).ready()
            first, second = (returned, second) if killed is first else (first, returned)
        assert copied() == lines.all, "no line is lost, and none is there twice"
