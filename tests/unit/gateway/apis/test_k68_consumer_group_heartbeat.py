"""ConsumerGroupHeartbeat: parked where the policy parks, and else as its coordinator answers it."""

from __future__ import annotations

import pytest
from tests.unit.gateway.epoch_members import BROKERS_INTERVAL_MS, Member, gateway

from kohort.gateway.policies.policies import EVERYTHING_PARKED, OBSERVED, GroupProtocol, Policy, PolicyTable, Treatment
from kohort.group.consumer.reconcile import ids_of
from kohort.wire.messages import ConsumerGroupHeartbeatResponse

TOPIC = b"t" * 16
OFF = PolicyTable((Policy(treatment=Treatment.OFF),))


def test_a_heartbeat_is_parked_where_the_policy_parks() -> None:
    parking = gateway(EVERYTHING_PARKED)
    member = Member(parking)
    assert member.steady() > 0
    assert parking.parked_heartbeats(GroupProtocol.CONSUMER) == 1
    assert parking.policies.counters.heartbeats[GroupProtocol.CONSUMER] == 1


@pytest.mark.parametrize(("policies", "groups"), [(OBSERVED, 1), (OFF, 0)])
def test_nothing_is_parked_or_changed_without_parking(policies: PolicyTable, groups: int) -> None:
    observing = gateway(policies)
    member = Member(observing)
    assert member.steady() == -1
    assert member.heartbeat(1, 30_000)
    assert member.answered(30_001) == BROKERS_INTERVAL_MS
    assert len(observing.groups.shard.groups) == groups


def test_an_answer_shows_what_its_member_owns() -> None:
    member = Member(gateway(OBSERVED))
    member.heartbeat(0, 0)
    granted = ConsumerGroupHeartbeatResponse.Assignment.TopicPartition(topic_id=TOPIC, partitions=[0, 2])
    member.answered(1, assignment=ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[granted]))
    group = member.gateway.groups.consumer.group("g")
    assert group is not None
    assert ids_of(group.members["m1"].assigned) == ((TOPIC, (0, 2)),)
