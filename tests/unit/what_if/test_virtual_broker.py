"""The copy of a group: its settings, its log, its members in the middle of their lives."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.what_if.groups import TOPIC_ID, group

from kohort.group.events import ConsumerMemberStored
from kohort.group.migration.migration_plan import LiveGroup
from kohort.model.ids import TopicPartition
from kohort.node.configuration.config import Config
from kohort.what_if.change import PlannedChange
from kohort.what_if.group_facts import GroupFacts, Times, roster_of
from kohort.what_if.simulation import Simulation
from kohort.what_if.virtual_broker import broker_settings, consumer_events

THREE = ("m-1", "m-2", "m-3")
NATIVES = group(*THREE, kind="consumer")
MIXED = replace(
    NATIVES,
    members=(
        replace(NATIVES.members[0], is_native=False, offers=("cooperative-sticky",)),
        replace(NATIVES.members[1], is_native=False),
        NATIVES.members[2],
    ),
)


def test_members_are_copied_with_the_lags_of_their_standby_copies() -> None:
    first, *others = NATIVES.members
    lagging = replace(first, lags={TopicPartition("orders", 5): 70}, acceptable_recovery_lag=60)
    roster = roster_of(replace(NATIVES, members=(lagging, *others)))
    stored = [
        event
        for event in consumer_events("g", roster, Times(), {"orders": TOPIC_ID}, 0, 0)
        if isinstance(event, ConsumerMemberStored)
    ]
    assert [(event.lags, event.acceptable_recovery_lag) for event in stored] == [
        (((TOPIC_ID, ((5, 70),)),), 60),
        ((), None),
        ((), None),
    ]


def test_settings_of_the_coordinator_count_where_they_mean_something_to_us() -> None:
    settings = {"group.initial.rebalance.delay.ms": "7", "group.share.max.groups": "3", "log.retention.ms": "5"}
    assigned = {"group.consumer.assignors": "org.apache.kafka.coordinator.group.assignor.RangeAssignor,theirs"}
    config = Config(broker_settings(GroupFacts(group("m"), {**settings, **assigned}, is_ours=False)))
    assert config.group_initial_rebalance_delay_ms == 7
    assert config.group_consumer_assignors == ("range", "uniform")
    assert (config.kohort_group_heartbeat_park, config.kohort_group_sync_hold_ms) == (False, 0)
    assert Config(broker_settings(GroupFacts(group("m")))).kohort_group_heartbeat_park


def test_targets_of_a_kafka_without_an_interval_are_not_spaced_out() -> None:
    assert Config(broker_settings(GroupFacts(group("m"), is_ours=False))).group_consumer_assignment_interval_ms == 0
    settings = {"group.consumer.assignment.interval.ms": "1000"}
    assert (
        Config(broker_settings(GroupFacts(group("m"), settings, is_ours=False))).group_consumer_assignment_interval_ms
        == 1_000
    )


def test_groups_own_settings_count_though_its_broker_would_refuse_them() -> None:
    settings = {"group.consumer.session.timeout.ms": "900", "group.consumer.heartbeat.interval.ms": "300"}
    config = Config(broker_settings(GroupFacts(group("m"), settings)))
    assert config.group_consumer_session_timeout_ms == 900
    assert config.group_consumer_heartbeat_interval_ms == 300


@pytest.mark.parametrize(
    "found",
    [
        group(*THREE),
        group(*THREE, assignor="roundrobin"),
        group(*THREE, assignor="cooperative-sticky", is_static=True),
        group(*THREE, kind="consumer"),
        group(*THREE, kind="consumer", is_static=True),
        MIXED,
        group("alone"),
    ],
)
@pytest.mark.parametrize("is_ours", [True, False])
def test_copy_of_a_group_at_rest_stays_at_rest(found: LiveGroup, is_ours: bool) -> None:
    play = Simulation(GroupFacts(found, is_ours=is_ours), roster_of(found), Times(), PlannedChange(), lambda _: None)
    play.open()
    assert play.broker.state == "Stable"
    assert play.rebalances() == []
    owned = {member_id: member.machine.owned for member_id, member in play.members.items()}
    assert owned == {each.member_id: each.owned for each in found.members}
    assert play.broker.member_ids() == set(owned)
