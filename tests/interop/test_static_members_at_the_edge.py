"""Members that `kohort gateway` makes static in front of Apache Kafka: a restart costs its own partitions only."""

from __future__ import annotations

import pytest
from interop.group import Group, Member
from interop.kohort_gateway import KohortGateway
from interop.ownership import check_single_owner
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

pytestmark = [pytest.mark.timeout(300), pytest.mark.lane(60)]

LIBRARIES = ("java", "librdkafka", "kgo")
PARTITIONS = 6
ROW = """
[[policies]]
groups = "*"
treatment = "park"
static_members = "client_id"
leave_delay_ms = 20000
"""


@pytest.mark.parametrize("broker", ["apache"])
@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
@pytest.mark.capability("kohort gateway", "static_members, restarts of Java, librdkafka and kgo, {protocol}")
def test_a_restart_moves_no_partition_of_the_others(protocol: str, stage: Stage) -> None:
    need(*LIBRARIES)
    create_topic(stage.bootstrap, stage.name, PARTITIONS)
    settings = stage.folder / f"{protocol}.toml"
    settings.write_text(ROW)
    with (
        KohortGateway(stage.bootstrap, "--config", str(settings)) as gateway,
        Group(gateway.bootstrap, stage.name, stage.name, PARTITIONS, stage.folder) as group,
    ):

        def pod(number: int) -> Member:
            more = {"client": f"pod-{number}", "session_ms": "30000", "heartbeat_ms": "1000"}
            return group.start(LIBRARIES[number], assignor=protocol, **more)

        group.are_troubles_expected = True
        members = [pod(number) for number in range(len(LIBRARIES))]
        group.settle(120)
        group.calm(4)
        for number, end in ((0, group.leave), (1, group.leave), (2, group.leave), (0, group.kill), (1, group.kill)):
            owned, others = set(members[number].owned), [each for each in group.members if each is not members[number]]
            before = [len(each.changes) for each in others]
            end(members[number])
            members[number] = pod(number)
            group.await_(lambda: members[number].owned == owned, f"pod-{number} owns {owned} again", 60)  # noqa: B023
            group.calm(3)
            assert [len(each.changes) for each in others] == before, "no other member has moved"
            assert members[number].owned == owned
        assert gateway.child.text().count("with its partitions") == 3
        group.leave(members[2])
        group.settle(60)
        log = gateway.child.text()
        assert "client pod-2 has not come back, and leaves" in log, "before its session timeout"
        assert "cannot leave" not in log
        check_single_owner(group.gone + group.members)
