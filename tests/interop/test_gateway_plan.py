"""Plans of `kohort gateway plan` carried out on a cluster of three nodes, and their way back: groups read on."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from interop.group import Group
from interop.kafka_cluster import ApacheCluster
from interop.kohort_gateway import READY
from interop.ports import free_port
from interop.process import Child
from interop.producers import Load
from interop.waiting import eventually
from tests.interop.conftest import SHORT_SESSIONS
from tests.interop.kafka_tools import CONFIG, TOOLS
from tests.interop.libraries import need
from tests.interop.topics import create_topic

from interop import jars
from kohort.sync import Admin

pytestmark = [pytest.mark.timeout(900)]
KOHORT = str(Path(sys.executable).parent / "kohort")
GATEWAY = "127.0.0.1"
SCRIPTS = {
    "kafka-reassign-partitions.sh": f"{TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-topics.sh": f"{TOOLS}.TopicCommand",
    "kafka-configs.sh": CONFIG,
}
"""Apache Kafka's scripts, which its jars do not have, by the program that each runs."""


class Operator:
    """Carries out the steps of a plan in their order; a context manager that leaves no gateway behind."""

    def __init__(self, cluster: ApacheCluster, folder: Path) -> None:
        self.cluster = cluster
        self.bootstrap_servers = ""
        """What clients have in their settings, once a step has named it."""
        self.measures: list[str] = []
        self._folder = folder
        self._gateways: list[Child] = []
        for name, main in SCRIPTS.items():
            script = folder / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join(jars.command(main))} "$@"\n')
            script.chmod(0o755)

    def __enter__(self) -> Operator:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_gateway()

    def carry_out(self, steps: Iterable[Mapping[str, Any]]) -> None:
        """Do what each step says."""
        for step in steps:
            title, lines = step["title"], step["lines"]
            if "in its server.properties" in title:
                self._set(int(re.findall(r"node (\d+)", title)[0]), lines)
            elif title.startswith("Restart"):
                self._restart(int(each) for each in re.findall(r"\d+", title.partition(";")[0]))
            elif "in their settings" in title:
                self.bootstrap_servers = lines[0].partition("=")[2]
            elif any(line.startswith("kohort gateway measure") for line in lines):
                self.measures += lines
            elif any(line.startswith("kohort gateway") for line in lines):
                self._start_gateway(lines[0])
            elif lines:
                self._run(lines)
            if "stop the gateway" in title.lower():
                self.stop_gateway()

    def _set(self, node_id: int, lines: Iterable[str]) -> None:
        file = self.cluster.nodes[node_id].directory / "server.properties"
        given = {line.partition("=")[0]: line for line in [*file.read_text().splitlines(), *lines]}
        file.write_text("\n".join(given.values()) + "\n")

    def _restart(self, node_ids: Iterable[int]) -> None:
        for node_id in node_ids:
            node = self.cluster.nodes[node_id]
            node.stop()
            node.restart()
            eventually(lambda: out_of_sync(self.cluster.bootstrap), 0, 60)

    def _run(self, lines: Iterable[str]) -> None:
        """Run the lines in a shell; what takes its time is verified until it is complete."""
        script = "\n".join(lines)

        def unfinished() -> bool:
            done = subprocess.run(
                ["bash", "-euc", f"PATH={self._folder}:$PATH\n{script}"],
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0 or "in progress" in done.stdout + done.stderr, done.stdout + done.stderr
            return "still in progress" in done.stdout

        if unfinished():
            script = "\n".join(line for line in lines if line.endswith("--verify"))
            eventually(unfinished, False, 120)

    def _start_gateway(self, command: str) -> None:
        self.stop_gateway()
        words = [KOHORT, *shlex.split(command)[1:]]
        words[words.index("127.0.0.1:9404")] = f"127.0.0.1:{free_port()}"
        gateway = Child(words, self._folder / f"gateway-{len(self._gateways)}.log")
        self._gateways.append(gateway)
        gateway.wait_for(lambda text: READY in text, "kohort gateway", 30)

    def stop_gateway(self) -> None:
        """End the gateway, if there is one."""
        if self._gateways and self._gateways[-1].is_running:
            self._gateways[-1].stop(40)

    def gateway_texts(self) -> str:
        """Return what the gateways have printed."""
        return "".join(each.text() for each in self._gateways)


def out_of_sync(bootstrap: str) -> int:
    """Return how many copies lag behind."""
    with Admin(bootstrap) as admin:
        views = [view for topic in admin.list_topics() for view in topic.partitions.values()]
    return sum(len(each.replicas) - len(each.in_sync) for each in views)


def planned(bootstrap: str, mode: str, *options: str) -> dict[str, Any]:
    """Return what `kohort gateway plan` prints."""
    command = [KOHORT, "gateway", "plan", "--bootstrap-server", bootstrap, "--mode", mode, "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def advertised(cluster: ApacheCluster) -> list[str]:
    """Return the listeners that each node advertises."""
    files = [node.directory / "server.properties" for node in cluster.nodes.values()]
    return [line for file in files for line in file.read_text().splitlines() if line.startswith("advertised")]


def free_ports(count: int) -> int:
    """Return the first of several free ports in a row."""
    while True:
        first = free_port()
        if first + count < 65_536 and all(is_free(first + at) for at in range(1, count)):
            return first


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def members(group: Group) -> None:
    """Start two members of different makes, and wait for them."""
    for library in ("java", "librdkafka"):
        group.start(library, assignor="range", session_ms="10000")
    group.settle(90)


def move(group: Group, bootstrap: str) -> None:
    """Give the members other `bootstrap.servers`: each leaves, and comes back by it."""
    for member in list(group.members):
        group.leave(member)
    group.bootstrap = bootstrap
    members(group)


def connections_to(group: Group, ports: Callable[[], set[int]]) -> set[int]:
    """Return those of these ports to which members are connected."""
    from interop.connections import remote_ports

    return ports() & {port for member in group.members for port in remote_ports(member.child.pid)}


@pytest.mark.capability("kohort gateway", "plan, mode listener: carried out, and its way back", broker="apache")
def test_plan_of_listeners_and_its_way_back(tmp_path: Path) -> None:
    need("java", "librdkafka")
    with ExitStack() as stack:
        cluster = stack.enter_context(ApacheCluster(3, SHORT_SESSIONS))
        operator = stack.enter_context(Operator(cluster, tmp_path))
        create_topic(cluster.bootstrap, "moved", 6, copies=3)
        before, first = advertised(cluster), free_ports(3)
        plan = planned(cluster.bootstrap, "listener", "--advertised", GATEWAY, "--first-port", str(first))
        group = stack.enter_context(Group(cluster.bootstrap, "g", "moved", 6, tmp_path))
        group.are_troubles_expected = True
        with Load(cluster.bootstrap, "moved") as load:
            members(group)
            operator.carry_out(plan["steps"])
            assert f"--gateway {GATEWAY}:{first}" in operator.measures[0]
            move(group, operator.bootstrap_servers)
            at_gateway = set(range(first, first + 3))
            assert connections_to(group, lambda: at_gateway)
            assert advertised(cluster) != before
            at_once, clients, *rest = plan["way_back"]
            operator.carry_out([at_once, clients])
            move(group, operator.bootstrap_servers)
            assert not connections_to(group, lambda: at_gateway)
            operator.carry_out(rest)
            group.settle(90)
            written = load.stop()
        group.drain(written, 90)
        group.check_read(written)
        assert advertised(cluster) == before
        assert "Traceback" not in operator.gateway_texts()


@pytest.mark.capability("kohort gateway", "plan, mode coordinators: carried out, and its way back", broker="apache")
def test_plan_of_coordinators_and_its_way_back(tmp_path: Path) -> None:
    need("java", "librdkafka")
    with ExitStack() as stack:
        listeners = ("INTERNAL:PLAINTEXT", "CLIENTS:PLAINTEXT")
        settings = {**SHORT_SESSIONS, "offsets.topic.replication.factor": "2"}
        cluster = stack.enter_context(ApacheCluster(3, settings, listeners=listeners))
        operator = stack.enter_context(Operator(cluster, tmp_path))
        clients = ",".join(cluster.nodes[each].addresses["CLIENTS"] for each in (1, 2))
        create_topic(cluster.bootstrap, "moved", 6, copies=2)
        before, first = advertised(cluster), free_port()
        with Load(clients, "moved") as load:
            group = stack.enter_context(Group(clients, "g", "moved", 6, tmp_path))
            group.are_troubles_expected = True
            members(group)
            before_plan = holders(cluster.bootstrap)["__consumer_offsets"]
            plan = planned(
                cluster.bootstrap,
                "coordinators",
                *("--advertised", GATEWAY, "--first-port", str(first), "--coordinators", "3"),
            )
            operator.carry_out(plan["steps"])
            group.settle(90)
            group.await_(lambda: bool(connections_to(group, lambda: {first})), "members come through the gateway", 60)
            assert holders(cluster.bootstrap)["__consumer_offsets"] == {3}
            assert holders(cluster.bootstrap)["moved"] == {1, 2}
            operator.carry_out(plan["way_back"])
            group.settle(90)
            assert not connections_to(group, lambda: {first})
            assert advertised(cluster) == before
            assert holders(cluster.bootstrap)["__consumer_offsets"] == before_plan
            written = load.stop()
        group.drain(written, 90)
        group.check_read(written)
        assert "Traceback" not in operator.gateway_texts()


def holders(bootstrap: str) -> dict[str, set[int]]:
    """Return which nodes hold each topic."""
    with Admin(bootstrap) as admin:
        topics = admin.list_topics()
    return {topic.name: {node for view in topic.partitions.values() for node in view.replicas} for topic in topics}
