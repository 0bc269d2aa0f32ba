"""The limits of connections: in all, of one address, and in a second."""

from __future__ import annotations

import logging

import pytest
from tests.unit.node.desk import Desk

from kohort.model.setting import SettingsError
from kohort.node.configuration.config import Config
from kohort.node.connection_limit import ConnectionLimit


def test_one_address_has_at_most_its_number_and_another_its_own(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(max_connections_per_ip=2, max_connections_per_ip_overrides="192.0.2.9:3,::1:0")
    first = [desk.connect(host="192.0.2.1") for _ in range(3)]
    other = [desk.connect(host="192.0.2.9") for _ in range(4)]
    assert [peer.closed is None for peer in (*first, *other)] == [True, True, False, True, True, True, False]
    assert desk.connect(host="::1").closed is not None
    assert caplog.messages == [
        "max.connections.per.ip (2) is reached: closed the connection from 192.0.2.1, 1 refused so far;"
        " new ones are taken when others end"
    ]
    first[0].leave()
    assert desk.connect(host="192.0.2.1").closed is None


def test_a_changed_number_applies_to_new_connections() -> None:
    desk = Desk(max_connections_per_ip=1)
    assert [desk.connect().closed is None for _ in range(2)] == [True, False]
    desk.node.state.alter_broker([("max.connections.per.ip", "2")], desk.clock.now_ms())
    assert [desk.connect().closed is None for _ in range(2)] == [True, False]


@pytest.mark.parametrize("text", ["192.0.2.1", "192.0.2.1:", "192.0.2.1:x", ":5", "a:1,b"])
def test_an_override_without_a_number_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="expected ADDRESS:NUMBER, …"):
        Config({"max.connections.per.ip.overrides": text})


def accept(limit: ConnectionLimit, now_ms: int) -> int:
    """Accept a connection if it need not wait; return how long it waits."""
    delay_ms = limit.creation_delay_ms(now_ms)
    if not delay_ms:
        limit.created()
    return delay_ms


def test_connections_beyond_the_rate_wait(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        limit = ConnectionLimit(Config({"max.connection.creation.rate": "10"}))
        now_ms = 1_700_000_000_000
        assert [limit.creation_delay_ms(now_ms) for _ in range(12)] == [0] * 12, "looking costs nothing"
        assert [accept(limit, now_ms) for _ in range(12)] == [0] * 10 + [101, 101]
    assert caplog.messages == ["max.connection.creation.rate (10 a second) is reached: new connections wait"]
    assert accept(limit, now_ms + 101) == 0
    assert accept(limit, now_ms + 101) > 0
    assert [accept(limit, now_ms + 60_000) for _ in range(11)].count(0) == 10


def test_without_a_rate_no_connection_waits() -> None:
    limit = ConnectionLimit(Config({}))
    assert not any(accept(limit, 1) for _ in range(3200))
