"""`kohort gateway --assignors` in front of Apache Kafka: its decision is what unmodified clients own."""

from __future__ import annotations

import pytest
from interop.group import Group
from interop.kohort_gateway import KohortGateway
from interop.ownership import check_single_owner
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

pytestmark = [pytest.mark.timeout(300), pytest.mark.lane(40)]

MEMBERS = ("java", "librdkafka", "kafka_python")
PARTITIONS = 6
OPTIONS = (
    "--assignors",
    "staircase-*=tests.interop.edge_assignors:staircase",
    "--assignors",
    "failing-*=tests.interop.edge_assignors:failing",
)


def loads(group: Group) -> list[int]:
    return [len(member.owned) for member in group.members]


@pytest.mark.parametrize("broker", ["apache"])
@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
@pytest.mark.capability("kohort gateway", "an assignor at the edge, Java, librdkafka and kafka-python, {protocol}")
def test_assignor_at_the_edge_decides_what_clients_own(protocol: str, stage: Stage) -> None:
    need(*MEMBERS)
    create_topic(stage.bootstrap, stage.name, PARTITIONS)
    with (
        KohortGateway(stage.bootstrap, *OPTIONS, "--park", "*") as gateway,
        Group(gateway.bootstrap, f"staircase-{stage.name}", stage.name, PARTITIONS, stage.folder) as group,
    ):
        group.are_troubles_expected = True
        for number, library in enumerate(MEMBERS[:2]):
            group.start(library, assignor=protocol, instance=f"step-{number}")
        group.await_(lambda: loads(group) == [2, 4], "the second member owns twice as much as the first", 90)
        group.start(MEMBERS[2], assignor=protocol, instance="step-2")
        group.await_(lambda: loads(group) == [1, 2, 3], "the third member owns three times as much", 90)
        group.calm(4)
        assert loads(group) == [1, 2, 3]
        check_single_owner(group.members)
        assert gateway.metric("assignments_total") >= 2
        assert "keeps its leader's own assignment" not in gateway.child.text()


@pytest.mark.parametrize("broker", ["apache"])
@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
@pytest.mark.capability("kohort gateway", "an assignor at the edge that fails, {protocol}")
def test_leaders_own_assignment_is_kept_where_the_assignor_fails(protocol: str, stage: Stage) -> None:
    need(*MEMBERS)
    create_topic(stage.bootstrap, stage.name, PARTITIONS)
    with (
        KohortGateway(stage.bootstrap, *OPTIONS, "--park", "*") as gateway,
        Group(gateway.bootstrap, f"failing-{stage.name}", stage.name, PARTITIONS, stage.folder) as group,
    ):
        group.are_troubles_expected = True
        for library in MEMBERS:
            group.start(library, assignor=protocol)
        group.await_(lambda: loads(group) == [2, 2, 2], "the leader's assignment", 90)
        check_single_owner(group.members)
        assert "no weights for 3 members" in gateway.child.text()
