"""Parking ends when the gateway drains, and for a while where it has done harm."""

from __future__ import annotations

import logging

import pytest
from tests.unit.gateway.epoch_members import BROKERS_INTERVAL_MS, Member, gateway

from kohort.gateway.policies.policies import EVERYTHING_PARKED
from kohort.model.errors import ErrorCode


def test_what_is_parked_passes_when_the_gateway_drains_and_nothing_is_parked_any_more() -> None:
    parking = gateway(EVERYTHING_PARKED)
    member = Member(parking)
    now_ms = member.steady()
    before = len(member.to_broker)
    parking.policies.stop_parking()
    member.relay.release(now_ms)
    assert len(member.to_broker) == before + 1
    assert not member.relay.is_idle
    assert member.answered(now_ms + 1) == BROKERS_INTERVAL_MS
    assert member.relay.is_idle
    assert member.heartbeat(1, now_ms + 1_000)


def test_a_client_that_abandons_its_connection_brings_its_group_back_to_observing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parking = gateway(EVERYTHING_PARKED)
    member = Member(parking)
    now_ms = member.steady()
    member.relay.closed(now_ms + 500, is_by_client=True)
    again = Member(parking)
    with caplog.at_level(logging.WARNING, "kohort.gateway"):
        assert again.heartbeat(1, now_ms + 600)
    assert caplog.messages == [
        "group g is only observed for 60 s: member m1 abandoned its connection while its heartbeat was parked"
    ]
    assert again.answered(now_ms + 601) == BROKERS_INTERVAL_MS
    assert again.heartbeat(1, now_ms + 1_600)
    assert parking.policies.counters.fallbacks == 1


def test_a_connection_that_the_broker_ends_is_no_harm() -> None:
    parking = gateway(EVERYTHING_PARKED)
    member = Member(parking)
    now_ms = member.steady()
    member.relay.closed(now_ms + 500, is_by_client=False)
    Member(parking).heartbeat(1, now_ms + 600)
    assert parking.policies.counters.fallbacks == 0


def test_a_member_that_is_evicted_while_its_heartbeat_is_parked_brings_its_group_back() -> None:
    parking = gateway(EVERYTHING_PARKED)
    member = Member(parking)
    now_ms = member.steady()
    member.relay.release(now_ms + 900)
    member.answered(now_ms + 901, error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert parking.policies.fallbacks.is_fallen("g", now_ms + 901)
