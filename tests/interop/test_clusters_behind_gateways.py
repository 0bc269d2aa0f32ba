"""A cluster whose nodes restart, hang and hand over groups, and a gateway that is killed: no record is lost."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest
from interop.connections import remote_ports
from interop.group import Group, Member, keyed, merged
from interop.kafka_cluster import ApacheCluster
from interop.kohort_gateway import KohortGateway
from interop.ownership import check_single_owner
from interop.producers import Load, produce
from interop.waiting import eventually
from tests.interop.groups import set_session
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

from kohort.sync import Admin

pytestmark = [pytest.mark.timeout(400)]
HANG_S = 12
"""Longer than the nine seconds after which the other nodes take over what a silent one leads."""
LONG_SESSION_MS = "30000"
"""So that a gateway is back before members are out."""


@pytest.mark.parametrize("broker", ["listener_of_three", "rewrite_of_three"])
@pytest.mark.capability("java", "the cluster restarts node by node, a node hangs: nothing lost, no address escapes")
def test_groups_outlast_a_rolling_restart_of_their_cluster(broker: str, rolled: dict[str, str]) -> None:
    assert rolled[broker] == ""


@pytest.fixture(scope="module")
def rolled(
    three_nodes: ApacheCluster,
    _listener_of_three: KohortGateway,
    _rewrite_of_three: KohortGateway,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    """Restart the cluster once under groups behind both gateways, and return by gateway what went wrong."""
    need("java", "librdkafka")
    topic = "rolled"
    create_topic(three_nodes.bootstrap, topic, 6, copies=3)
    gateways = {"listener_of_three": _listener_of_three, "rewrite_of_three": _rewrite_of_three}
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("rolled")
        groups = {
            kind: [stack.enter_context(group) for group in groups_behind(gateway, topic, folder)]
            for kind, gateway in gateways.items()
        }
        everyone = [group for each in groups.values() for group in each]
        for group in everyone:
            group.settle(90)
        connected: dict[str, set[int]] = {kind: set() for kind in groups}

        def look() -> None:
            for kind, behind in groups.items():
                connected[kind] |= {
                    port for group in behind for m in group.members for port in remote_ports(m.child.pid)
                }

        with Load(_rewrite_of_three.bootstrap, topic) as load:
            for node in three_nodes.nodes.values():
                node.stop()
                look()
                node.restart()
                await_copies(three_nodes.bootstrap, topic)
                look()
            three_nodes.nodes[2].hang(HANG_S)
            await_copies(three_nodes.bootstrap, topic)
            look()
            written = load.stop()
        own_ports = {
            int(address.rpartition(":")[2]) for n in three_nodes.nodes.values() for address in n.addresses.values()
        }
        wrong: dict[str, str] = {}
        for kind, behind in groups.items():
            try:
                for group in behind:
                    group.drain(written, 90)
                    group.check_read(written)
                assert not connected[kind] & own_ports, "members were connected to brokers, past the gateway"
                assert "Traceback" not in gateways[kind].child.text(), gateways[kind].child.text()[-3000:]
                wrong[kind] = ""
            except AssertionError as error:
                wrong[kind] = str(error)
    return wrong


def groups_behind(gateway: KohortGateway, topic: str, folder: Path) -> Iterable[Group]:
    """Start a cooperative group and a consumer group of Java, two members each."""
    for settings in ({"assignor": "cooperative-sticky", "session_ms": "10000"}, {"protocol": "consumer"}):
        group = Group(gateway.bootstrap, f"{topic}-{gateway.mode}-{'-'.join(settings)}", topic, 6, folder)
        group.are_troubles_expected = True
        for _ in range(2):
            group.start("java", **settings)
        yield group


def await_copies(bootstrap: str, topic: str) -> None:
    """Wait until every copy of the topic, and of what coordinators keep, is in sync."""

    def lacking() -> int:
        with Admin(bootstrap) as admin:
            topics = admin.describe_topics([topic, "__consumer_offsets"])
        return sum(len(each.in_sync) < 3 for view in topics.values() for each in view.partitions.values())

    eventually(lacking, 0, 60)


@pytest.mark.lane(30)
@pytest.mark.parametrize("broker", ["rewrite_of_three"])
@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
@pytest.mark.capability("java", "the gateway is killed within a round, {protocol}")
def test_a_gateway_that_is_killed_within_a_round_loses_nothing(protocol: str, stage: Stage) -> None:
    need("java", "librdkafka")
    assert isinstance(stage.broker, KohortGateway)
    create_topic(stage.bootstrap, stage.name, 6)
    settings = {"assignor": protocol, "session_ms": LONG_SESSION_MS}
    if protocol == "consumer":
        settings = {"protocol": "consumer"}
        set_session(stage.bootstrap, f"group-{stage.name}", LONG_SESSION_MS)
    with (
        KohortGateway(stage.broker.upstream, "--park", "*", nodes=(1, 2, 3)) as gateway,
        Group(gateway.bootstrap, f"group-{stage.name}", stage.name, 6, stage.folder) as group,
    ):
        group.are_troubles_expected = True
        for _ in range(3):
            group.start("java", **settings)
        group.settle()
        written = produce("librdkafka", gateway.bootstrap, stage.name, keyed(120, 17))
        before = list(group.members)
        revocations = [revoked(member) for member in before]
        group.start("java", **settings)
        group.await_(lambda: [revoked(member) for member in before] != revocations, "a member gives up partitions", 30)
        gateway.child.kill()
        gateway.start()
        group.settle(60)
        more = produce("librdkafka", gateway.bootstrap, stage.name, keyed(120, 17, 120))
        written = merged([written, more])
        group.drain(written)
        group.check(written, may_repeat=group.members)
        check_single_owner(group.members)


def revoked(member: Member) -> int:
    """Return how often it has given up partitions."""
    return sum(why == "revoked" for why, _ in member.changes)
