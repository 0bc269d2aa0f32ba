"""Brokers restart one after the other, by kill -9 and by SIGTERM, under groups that read through a gateway under load.

What a broker does to a connection its client sees behind a gateway too, so no member loses its group for longer than it
does directly: all of them run to the end, own everything again, and every record is read.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from interop.group import NEWEST_JAVA, Group, Position
from interop.kafka_cluster import ApacheCluster
from interop.kohort_gateway import KohortGateway
from interop.producers import Load, Written
from tests.interop.libraries import need
from tests.interop.topics import create_topic

LIBRARIES = [
    ("kgo", "java", "librdkafka", "aiokafka", "kohort"),
    ("sarama", "kafka-go", "kafkajs", "kafka_python", NEWEST_JAVA),
]
NODES, PARTITIONS = 3, 4
COPIES = {"offsets.topic.replication.factor": "3", "min.insync.replicas": "1", "offsets.topic.num.partitions": "3"}


def all_read(group: Group, written: Written) -> Counter[Position]:
    """Wait until every record was read, and return how often each was."""
    group.await_(lambda: written.keys() <= group.positions_read().keys(), "every record is read", 90)
    return group.check_read(written)


@pytest.mark.timeout(580)
@pytest.mark.parametrize("way", ["direct", "gateway"])
@pytest.mark.parametrize("libraries", LIBRARIES, ids="-".join)
def test_no_group_loses_all_members_while_brokers_restart(libraries: tuple[str, ...], way: str, tmp_path: Path) -> None:
    need(*libraries)
    with ExitStack() as stack:
        cluster = stack.enter_context(ApacheCluster(NODES, COPIES))
        bootstrap = cluster.bootstrap
        if way == "gateway":
            gateway = KohortGateway(cluster.bootstrap, "--park", "*", nodes=tuple(cluster.nodes))
            bootstrap = stack.enter_context(gateway).bootstrap
        groups: dict[str, Group] = {}
        loads: dict[str, Load] = {}
        for library in libraries:
            topic = f"restarts-{library}"
            create_topic(cluster.bootstrap, topic, PARTITIONS, NODES)
            group = groups[library] = stack.enter_context(Group(bootstrap, topic, topic, PARTITIONS, tmp_path))
            group.are_troubles_expected = True
            for _ in range(2):
                group.start(library, session_ms="45000", heartbeat_ms="3000")
            loads[library] = stack.enter_context(Load(bootstrap, topic, pause_s=0.5))
        for group in groups.values():
            group.settle(120)
        for number, node in cluster.nodes.items():
            if number % 2:
                node.child.kill()
            else:
                node.stop()
            node.restart()
            for group in groups.values():
                group.settle(120)
        for library, group in groups.items():
            written = loads[library].stop()
            counts = all_read(group, written)
            lost = sum(why == "lost" for member in group.members for why, _ in member.changes)
            troubles = sum(len(member.troubles) for member in group.members)
            twice = sum(times > 1 for times in counts.values())
            print(library, f"{way}: {lost} lost, {troubles} errors, {twice} of {len(counts)} records twice")
            assert lost < len(group.members), f"{library}: every member lost its partitions"
