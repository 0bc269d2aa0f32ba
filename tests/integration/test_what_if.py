"""`kohort what-if` against what then happens: a real roll, a kill and three newcomers, on the embedded broker.

These are tests of a prediction, not of this machine's speed. So what takes time in them is what a forecast knows of:
callbacks of some hundred milliseconds, the pause of a restart, session timeouts. What a busy machine adds to each
message is far below the fifth by which a prediction may be off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.integration.commands import Commands
from tests.integration.live_group import LiveGroup, now_ms, pass_time

from kohort import Admin, CooperativeStickyAssignor
from kohort.broker.embedded import EmbeddedBroker

NAMES = ("m-1", "m-2", "m-3")
PARTITIONS = 12
CALLBACK_MS = 400
AWAY_MS = 1_500
SESSION_MS, HEARTBEAT_MS = 6_000, 500
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS},
    "cooperative": {
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "assignors": (CooperativeStickyAssignor(),),
    },
    "consumer": {"group_protocol": "consumer"},
}
GIVEN = ("--heartbeat", f"{HEARTBEAT_MS}ms", "--away", f"{AWAY_MS}ms", "--json")


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Return a broker with short sessions, whose data directory is known."""
    with EmbeddedBroker(
        tmp_path_factory.mktemp("what-if"),
        group_initial_rebalance_delay_ms=0,
        group_consumer_session_timeout_ms=SESSION_MS,
        group_consumer_min_session_timeout_ms=SESSION_MS,
    ) as broker:
        yield broker


class Cost(NamedTuple):
    """What a change was predicted, or measured, to cost."""

    moves: int
    duration_s: float
    unowned_partition_s: float
    unread_partition_s: float


def predicted(kohort: Commands, *words: str) -> tuple[Cost, dict[str, Any]]:
    """Return what a command forecasts, and all that it says."""
    printed = kohort("what-if", *words, *GIVEN).json
    found = printed["forecasts"][0]
    assert found["is_settled"], printed
    return Cost(*(found[name] for name in Cost._fields)), printed


def measured(kohort: Commands, live: LiveGroup, began_ms: float) -> Cost:
    """Return the costs since a moment by the broker's events and the members' callbacks."""
    printed = kohort("explain", live.name, "--json", "--last", "100").json
    while printed["running"] is not None or printed["members"] != len(live.members):
        printed = kohort("explain", live.name, "--json", "--last", "100").json
    lately = [each for each in printed["rebalances"] if each["started_ms"] >= began_ms - 1]
    flows = [flow for each in lately for flow in each["moved"] if flow["from"] and flow["to"]]
    return Cost(
        sum(len(numbers) for flow in flows for numbers in flow["partitions"].values()),
        (live.ended_ms - began_ms) / 1000,
        sum(each["unowned_partition_s"] for each in lately),
        live.ledger.unread_ms / 1000,
    )


def assert_within_a_fifth(forecast: Cost, found: Cost) -> None:
    print(forecast, found)
    assert forecast.moves == pytest.approx(found.moves, rel=0.2), (forecast, found)
    assert forecast.duration_s == pytest.approx(found.duration_s, rel=0.2), (forecast, found)
    assert forecast.unread_partition_s == pytest.approx(found.unread_partition_s, rel=0.2), (forecast, found)
    # Where nothing is unowned for longer than messages take, it is their time that is measured: ten rounds, twelve
    # partitions, eight milliseconds.
    expected = pytest.approx(found.unowned_partition_s, rel=0.2, abs=1.0)
    assert forecast.unowned_partition_s == expected, (forecast, found)


async def begun(kohort: Commands, name: str, protocol: str) -> LiveGroup:
    """Return a group without members, its topic made."""
    async with Admin(kohort.address) as admin:
        await admin.create_topic(name, partitions=PARTITIONS)
    return LiveGroup(kohort.address, name, PARTITIONS, CALLBACK_MS, PROTOCOLS[protocol])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_roll_is_predicted_within_a_fifth(kohort: Commands, protocol: str) -> None:
    async def scenario() -> None:
        live = await begun(kohort, f"rolled-{protocol}", protocol)
        for name in NAMES:
            # One after another, each after some heartbeats: from that the forecast learns how long callbacks take.
            await live.start(name)
            await live.settle()
            await pass_time(3 * HEARTBEAT_MS)
        forecast, printed = await asyncio.to_thread(predicted, kohort, live.name, "--bounce", "rolling")
        assert printed["times"]["revoked_callback_ms"] == pytest.approx(CALLBACK_MS, rel=0.2)
        live.ledger.begin()
        began_ms = now_ms()
        for name in NAMES:
            await live.stop(name)
            await pass_time(AWAY_MS)
            await live.start(name)
            await live.settle()
        found = await asyncio.to_thread(measured, kohort, live, began_ms)
        await live.end()
        assert_within_a_fifth(forecast, found)

    asyncio.run(scenario())


def test_kill_and_three_newcomers_are_predicted_within_a_fifth(kohort: Commands) -> None:
    async def scenario() -> None:
        live = await begun(kohort, "killed", "eager")
        await live.start("m-1")
        await live.settle()
        await pass_time(3 * HEARTBEAT_MS)
        await live.start("m-3")
        await live.settle()
        await pass_time(3 * HEARTBEAT_MS)
        with live.start_apart("m-2") as apart:
            await live.settle(apart=PARTITIONS // 3)
            # First heartbeats wait longer than so short an interval: a member killed meanwhile is evicted sooner.
            await pass_time(30 * HEARTBEAT_MS)
            words = ("--kill", "m-2", "--add", "3")
            forecast, _ = await asyncio.to_thread(predicted, kohort, live.name, *words)
            theirs = live.elsewhere()
            live.ledger.start(theirs)
            live.ledger.begin()
            began_ms = now_ms()
            apart.kill()
            live.ledger.stop(theirs)
        await asyncio.gather(*[live.start(f"new-{number}") for number in (1, 2, 3)])
        await live.settle()
        found = await asyncio.to_thread(measured, kohort, live, began_ms)
        await live.end()
        assert_within_a_fifth(forecast, found)

    asyncio.run(scenario())
