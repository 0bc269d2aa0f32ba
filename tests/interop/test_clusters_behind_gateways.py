"""A cluster whose nodes restart, hang and hand over groups, and a gateway that is killed: no record is lost."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest
from interop.connections import remote_ports
from interop.gateways import gateway_of_three, three_nodes
from interop.group import Group, Member, keyed, merged
from interop.kohort_gateway import KohortGateway
from interop.ownership import check_single_owner
from interop.producers import Load, produce
from interop.waiting import eventually
from tests.interop.conftest import SHORT_SESSIONS
from tests.interop.groups import set_session
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

from kohort.sync import Admin

pytestmark = [pytest.mark.timeout(600)]
HANG_S = 12
"""Longer than the nine seconds after which the other nodes take over what a silent one leads."""
LONG_SESSION_MS = "30000"
"""So that a gateway is back before members are out."""


@pytest.mark.lane(150)
@pytest.mark.parametrize("broker", ["rewrite_of_three"])
@pytest.mark.capability("java", "the cluster restarts node by node, one hangs (in mode listener beside it)")
def test_groups_outlast_a_rolling_restart_of_their_cluster(stage: Stage) -> None:
    need("java", "librdkafka")
    with ExitStack() as stack:
        cluster = stack.enter_context(three_nodes(SHORT_SESSIONS))
        create_topic(cluster.bootstrap, stage.name, 6, copies=3)
        gateways = [stack.enter_context(gateway_of_three(cluster, mode)) for mode in ("rewrite", "listener")]
        groups = [
            stack.enter_context(group) for each in gateways for group in groups_behind(each, stage.name, stage.folder)
        ]
        for group in groups:
            group.settle(90)
        with Load(gateways[0].bootstrap, stage.name) as load:
            ports = connected(groups)
            for node in cluster.nodes.values():
                node.stop()
                node.restart()
                await_copies(cluster.bootstrap, stage.name)
                ports |= connected(groups)
            cluster.nodes[2].hang(HANG_S)
            await_copies(cluster.bootstrap, stage.name)
            ports |= connected(groups)
            written = load.stop()
        for group in groups:
            group.drain(written, 90)
            group.check_read(written)
        of_brokers = {address for node in cluster.nodes.values() for address in node.addresses.values()}
        assert not ports & {int(address.rpartition(":")[2]) for address in of_brokers}, "members passed the gateway by"
        assert not [each.child.text()[-3000:] for each in gateways if "Traceback" in each.child.text()]


def connected(groups: Iterable[Group]) -> set[int]:
    """Return the ports to which members are connected."""
    return {port for group in groups for member in group.members for port in remote_ports(member.child.pid)}


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
