"""Heartbeats of share groups and streams groups are parked by the rule of consumer groups."""

from __future__ import annotations

import pytest
from tests.unit.gateway.epoch_members import BROKERS_INTERVAL_MS, Member, gateway

from kohort.gateway.policies.policies import GroupProtocol, Policy, PolicyTable, Treatment
from kohort.model.errors import ErrorCode
from kohort.parking.limits import SENDER_FORGOTTEN_MS

BOTH = pytest.mark.parametrize("protocol", [GroupProtocol.SHARE, GroupProtocol.STREAMS])


@BOTH
def test_a_steady_heartbeat_is_parked_no_longer_than_its_sender_can_wait(protocol: GroupProtocol) -> None:
    parking = gateway()
    member = Member(parking, protocol)
    now_ms = member.steady()
    assert parking.parked_heartbeats(protocol) == 1
    latest_ms = now_ms + int(0.9 * BROKERS_INTERVAL_MS)
    while parking.parked_heartbeats(protocol) and now_ms < latest_ms:
        now_ms += 10
        parking.tick(now_ms)
    assert parking.parked_heartbeats(protocol) == 0
    assert member.answered(now_ms) < BROKERS_INTERVAL_MS
    assert parking.policies.counters.updates[protocol] == 0


@BOTH
def test_a_member_that_joins_has_the_heartbeats_of_the_others_forwarded(protocol: GroupProtocol) -> None:
    parking = gateway()
    member, other = Member(parking, protocol), Member(parking, protocol, "m2")
    now_ms = member.steady()
    assert other.heartbeat(0, now_ms + 20)
    assert parking.parked_heartbeats(protocol) == 1
    parking.tick(now_ms + 24)
    assert parking.parked_heartbeats(protocol) == 0
    assert parking.policies.counters.updates[protocol] == 1


@BOTH
def test_a_newer_epoch_has_the_heartbeats_of_the_others_forwarded(protocol: GroupProtocol) -> None:
    parking = gateway()
    member, other = Member(parking, protocol), Member(parking, protocol, "m2")
    now_ms = member.steady()
    assert other.heartbeat(3, now_ms + 20)
    other.answered(now_ms + 25, epoch=7)
    assert parking.parked_heartbeats(protocol) == 1
    parking.tick(now_ms + 29)
    assert parking.parked_heartbeats(protocol) == 0


@BOTH
def test_a_heartbeat_of_another_protocol_has_its_own_policy(protocol: GroupProtocol) -> None:
    consumer_only = PolicyTable((Policy(protocol="consumer", treatment=Treatment.PARK),))
    assert Member(gateway(consumer_only), protocol).steady() == -1
    assert Member(gateway(PolicyTable((Policy(protocol=protocol, treatment=Treatment.PARK),))), protocol).steady() > 0


@BOTH
def test_a_refused_and_a_dead_member_are_forgotten(protocol: GroupProtocol) -> None:
    parking = gateway()
    member, refused = Member(parking, protocol), Member(parking, protocol, "m2")
    now_ms = member.steady()
    refused.heartbeat(0, now_ms)
    refused.answered(now_ms, error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    parking.tick(now_ms + 10_000)
    member.relay.closed(now_ms + 10_000, is_by_client=True)
    for passed_ms in range(SENDER_FORGOTTEN_MS, 9 * SENDER_FORGOTTEN_MS, SENDER_FORGOTTEN_MS):
        parking.tick(now_ms + passed_ms)
    assert parking.next_deadline_ms() is None
