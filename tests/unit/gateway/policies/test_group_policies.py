"""Parking ends when the gateway drains, and for a while where it has done harm."""

from __future__ import annotations

import logging

import pytest
from tests.unit.gateway.epoch_members import BROKERS_INTERVAL_MS, Member, gateway

from kohort.gateway.gateway import Gateway, GatewayLimits
from kohort.gateway.policies.group_policies import HOSTS, MOST_REMEMBERED, RETURN_MS, WITHIN_MS, Fallbacks
from kohort.gateway.policies.policies import EVERYTHING_PARKED, OBSERVED
from kohort.group.coordinator_settings import GroupSettings
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


class Harms:
    """The falls of some groups."""

    def __init__(self) -> None:
        self.fallen: list[tuple[str, str]] = []
        self.fallbacks = Fallbacks(lambda group_id, harm: self.fallen.append((group_id, harm)), 1_000)


def test_a_member_that_comes_back_by_another_connection_has_abandoned_its_first() -> None:
    harms = Harms()
    harms.fallbacks.disconnected("g", "m1", "h", 0)
    harms.fallbacks.seen("g", "m2", 10)
    assert not harms.fallbacks.is_fallen("g", 10)
    harms.fallbacks.seen("g", "m1", 20)
    assert harms.fallen == [("g", "member m1 abandoned its connection while its heartbeat was parked")]
    assert harms.fallbacks.is_fallen("g", 20)
    assert not harms.fallbacks.is_fallen("other", 20)


def test_a_process_that_ends_without_a_word_is_no_harm() -> None:
    harms = Harms()
    harms.fallbacks.disconnected("g", "m1", "h", 0)
    harms.fallbacks.seen("g", "m1", RETURN_MS + 1)
    assert harms.fallen == []


def test_disconnects_of_several_hosts_in_a_short_time_are_harm() -> None:
    harms = Harms()
    for number in range(HOSTS):
        harms.fallbacks.disconnected("g", f"m{number}", f"h{number}", number * WITHIN_MS)
    assert harms.fallen == []
    for number in range(HOSTS):
        harms.fallbacks.disconnected("g", f"n{number}", f"h{number}", HOSTS * WITHIN_MS)
    assert [group_id for group_id, _ in harms.fallen] == ["g"]


def test_all_members_of_one_host_that_disconnect_are_no_harm() -> None:
    harms = Harms()
    for number in range(HOSTS + 5):
        harms.fallbacks.disconnected("g", f"m{number}", "h", number)
    assert harms.fallen == []


def test_a_group_comes_back_after_the_stated_time_and_falls_once() -> None:
    harms = Harms()
    harms.fallbacks.evicted("g", "m1", 0)
    harms.fallbacks.evicted("g", "m2", 500)
    assert len(harms.fallen) == 1
    assert harms.fallbacks.fallen(1_000) == 1
    assert harms.fallbacks.is_fallen("g", 1_499)
    assert not harms.fallbacks.is_fallen("g", 1_500)
    assert harms.fallbacks.fallen(1_500) == 0


def test_what_is_remembered_is_bounded() -> None:
    harms = Harms()
    for number in range(MOST_REMEMBERED + 10):
        harms.fallbacks.disconnected(f"g{number}", "m", "h", 0)
    harms.fallbacks.seen("g0", "m", 1)
    assert harms.fallen == []
    harms.fallbacks.seen(f"g{MOST_REMEMBERED}", "m", 1)
    assert [group_id for group_id, _ in harms.fallen] == [f"g{MOST_REMEMBERED}"]


def test_policies_that_are_replaced_count_from_the_next_request_on_and_forget_no_member() -> None:
    limits = GatewayLimits()
    replaced = Gateway(GroupSettings(), lambda _shard, _event, _now_ms: None, may_park=True)
    member = Member(replaced)
    assert member.steady() == -1
    replaced.change(EVERYTHING_PARKED, limits)
    assert not member.heartbeat(1, 20_000)
    replaced.change(OBSERVED, limits)
    before = len(member.to_broker)
    replaced.tick(60_000)
    assert len(member.to_broker) == before + 1, "what is parked ends as usual"
    assert member.answered(60_001) == BROKERS_INTERVAL_MS
    assert member.heartbeat(1, 61_000)
    assert replaced.policies.counters.fallbacks == 0
