"""Members that a gateway makes static: a restart moves no partition of others, and one that stays away leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.pods import Pod, settle
from tests.integration.running_gateway import RunningGateway

from kohort import CooperativeStickyAssignor, RangeAssignor, sync
from kohort.assign import Assignor
from kohort.broker.embedded import EmbeddedBroker
from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    given = {"kohort_group_heartbeat_park": False, "group_initial_rebalance_delay_ms": 0}
    with EmbeddedBroker(**given) as broker:
        with sync.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", 4)
        yield broker


def gateway(broker: EmbeddedBroker, leave_delay_ms: int = 30_000) -> RunningGateway:
    row = Policy(treatment=Treatment.PARK, static_members="client_id", leave_delay_ms=leave_delay_ms)
    return RunningGateway(broker.bootstrap_servers, policies=PolicyTable((row,)))


@pytest.mark.parametrize("assignor", [RangeAssignor, CooperativeStickyAssignor])
def test_a_restart_moves_no_partition_of_the_others(broker: EmbeddedBroker, assignor: type[Assignor]) -> None:
    both: list[tuple[str | None, int]] = [("static-pod-0", 2), ("static-pod-1", 2)]
    with gateway(broker) as front, Pod(front.bootstrap_servers, "pod-1", assignor()) as other:
        settle(broker, [("static-pod-1", 4)])
        with Pod(front.bootstrap_servers, "pod-0", assignor()):
            settle(broker, both)
            moved = other.moved
        with Pod(front.bootstrap_servers, "pod-0", assignor()) as successor:
            assert successor.assigned.wait(40)
            settle(broker, both)
            assert (successor.moved, other.moved) == (2, moved)


def test_a_member_that_stays_away_leaves(broker: EmbeddedBroker) -> None:
    with gateway(broker, leave_delay_ms=300) as front, Pod(front.bootstrap_servers, "pod-1", RangeAssignor()):
        with Pod(front.bootstrap_servers, "pod-0", RangeAssignor()):
            settle(broker, [("static-pod-0", 2), ("static-pod-1", 2)])
        settle(broker, [("static-pod-1", 4)])


def test_clients_with_one_client_id_read_beside_each_other(broker: EmbeddedBroker) -> None:
    with gateway(broker) as front, Pod(front.bootstrap_servers, "pod", RangeAssignor()):
        settle(broker, [("static-pod", 4)])
        with Pod(front.bootstrap_servers, "pod", RangeAssignor()):
            settle(broker, [("static-pod", 2), (None, 2)])
