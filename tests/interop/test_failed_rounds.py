"""Rounds that go wrong under members of every library: a leader that cannot assign, a broker killed in the middle."""

from __future__ import annotations

import pytest
from interop.brokers import BROKERS
from interop.group import Group, keyed, merged
from interop.kohort_broker import KohortBroker
from interop.ownership import check_single_owner
from interop.producers import produce
from interop.stored import leading_client
from interop.trap import JOIN_GROUP, SYNC_GROUP, Trap
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

pytestmark = pytest.mark.timeout(300)
ALL_MEMBERS = ("kohort", "java", "librdkafka", "kafka_python", "aiokafka")


@pytest.mark.lane(30)
@pytest.mark.parametrize("broker", list(BROKERS))
@pytest.mark.parametrize("library", ALL_MEMBERS)
@pytest.mark.capability("{library}", "its leader (of ours) cannot assign: another leads")
def test_members_go_on_when_their_leader_cannot_assign(library: str, stage: Stage) -> None:
    need(library)
    with stage.group() as group:
        failing = group.start("kohort", assignor="range-for-two")
        group.settle()
        group.start(library, assignor="range")
        group.settle()
        group.calm(1)
        assert leading_client(stage.bootstrap, group.name) == "kohort"
        group.are_troubles_expected = True
        group.start(library, assignor="range")
        group.await_(lambda: bool(failing.troubles), "the leader says that it cannot", 20)
        assert "3 members are too many" in failing.troubles[0]
        if stage.broker.name == "apache":  # which cannot pass the failure on, so the leader has left instead
            group.leave(failing)
        group.settle()
        group.calm(1)
        written = produce("librdkafka", stage.bootstrap, group.topic, keyed(300, 17))
        group.drain(written)
        group.check(written)
        check_single_owner(group.gone + group.members)


@pytest.mark.lane(45)
@pytest.mark.parametrize("broker", ["kohort"])
@pytest.mark.parametrize("moment", ["generation", "assignment"])
@pytest.mark.capability("all together", "broker killed when only one member has received the {moment}")
def test_group_survives_a_broker_killed_in_the_middle_of_a_round(moment: str, stage: Stage) -> None:
    need(*ALL_MEMBERS)
    with Trap() as trap, KohortBroker({"advertised.listeners": f"PLAINTEXT://{trap.bootstrap}"}) as broker:
        trap.upstream = broker.bootstrap
        create_topic(trap.bootstrap, stage.name, 12)
        with Group(trap.bootstrap, stage.name, stage.name, 12, stage.folder) as group:
            for library in ALL_MEMBERS:
                group.start(library, assignor="range", session_ms="10000")
            group.settle()
            written = produce("librdkafka", trap.bootstrap, stage.name, keyed(300, 40))
            group.drain(written)
            trap.set(JOIN_GROUP if moment == "generation" else SYNC_GROUP)
            group.start("kohort", assignor="range", session_ms="10000")
            group.await_(trap.has_sprung.is_set, f"a member receives the {moment}", 30)
            group.are_troubles_expected = True  # kafka-python's poll raises what its connection did
            broker.kill()
            trap.open()
            broker.start()
            group.settle(60)
            written = merged([written, produce("librdkafka", trap.bootstrap, stage.name, keyed(300, 40, 300))])
            group.drain(written)
            # What a member had read when the broker went, and could not commit, is read again.
            group.check(written, may_repeat=group.members)
            check_single_owner(group.members, may_lose=group.members)
