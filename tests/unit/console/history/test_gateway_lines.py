"""Lines of the feed about gateways: what has changed between two looks at their metrics."""

from __future__ import annotations

from kohort.console.history.gateway_lines import GatewayLine, GatewayLines, GatewayLook
from kohort.console.history.watched_cluster import WatchedCluster
from kohort.console.top.group_lines import feed_lines


def lines(*looks: GatewayLook | None) -> list[GatewayLine]:
    """Return what the last of some looks shows."""
    gateway = GatewayLines()
    *_, last = [list(gateway.fold(each)) for each in looks]
    return last


def test_a_group_that_falls_back_is_an_alarm_once() -> None:
    calm, fallen = GatewayLook(5, 0, 7), GatewayLook(5, 1, 8)
    [line] = lines(calm, fallen)
    assert line == ("1 time a group fell back: its heartbeats are forwarded, and not parked", True)
    assert lines(calm, fallen, fallen) == []
    assert lines(fallen, GatewayLook(5, 0, 8)) == [GatewayLine("no group is fallen back any more")]


def test_fallbacks_before_the_first_look_are_no_line() -> None:
    assert lines(GatewayLook(5, 1, 7)) == []


def test_parking_that_begins_and_ends_is_a_line() -> None:
    assert lines(GatewayLook(0, 0, 0), GatewayLook(1200, 0, 0)) == [GatewayLine("parks heartbeats: 1,200 now")]
    assert lines(GatewayLook(9, 0, 0), GatewayLook(0, 0, 0)) == [GatewayLine("parks no heartbeats any more")]


def test_a_gateway_that_ends_and_starts_again_is_one_line_each() -> None:
    there = GatewayLook(3, 0, 2)
    assert lines(there, None) == [GatewayLine("its metrics cannot be read any more", is_alarm=True)]
    assert lines(there, None, None) == []
    assert lines(None, None) == []
    again = [line.text for line in lines(there, None, GatewayLook(0, 0, 0))]
    assert again == ["its metrics can be read again", "was started again"]


def test_the_feed_of_a_cluster_has_them_and_the_terminal_has_rebalances_only() -> None:
    watched = WatchedCluster()
    for look in (GatewayLook(0, 0, 0), GatewayLook(3, 0, 1)):
        watched.fold_gateway(1000, "http://gateway-1:9404/metrics", look)
    assert [(line.source, line.is_costly) for line in watched.feed] == [
        ("gateway-1:9404", True),
        ("gateway-1:9404", False),
    ]
    assert feed_lines(watched) == []
