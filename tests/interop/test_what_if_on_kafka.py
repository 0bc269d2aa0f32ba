"""`kohort what-if` for groups of a real Apache Kafka, from its APIs, compared with a real roll there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from interop.kafka import ApacheKafka
from tests.integration.commands import Commands
from tests.integration.live_group import LiveGroup, now_ms, pass_time

from kohort import Admin

NAMES = ("m-1", "m-2", "m-3")
PARTITIONS, CALLBACK_MS, AWAY_MS, HEARTBEAT_MS = 12, 800, 3_000, 300
CLASSIC = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": HEARTBEAT_MS}


@pytest.fixture
def kohort(
    apache: ApacheKafka, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Commands:
    """Return the command line against Apache Kafka."""
    return Commands(apache.bootstrap, capfdbinary, tmp_path, monkeypatch)


async def begun(kohort: Commands, name: str, **settings: object) -> LiveGroup:
    """Return a group of three, settled."""
    async with Admin(kohort.address) as admin:
        await admin.create_topic(name, partitions=PARTITIONS)
    live = LiveGroup(kohort.address, name, PARTITIONS, CALLBACK_MS, settings)
    for each in NAMES:
        await live.start(each)
    await live.settle()
    return live


@pytest.mark.timeout(180)
def test_roll_of_a_group_on_kafka_is_predicted_within_a_fifth(kohort: Commands, name: str) -> None:
    words = ("what-if", name, "--bounce", "rolling", "--away", f"{AWAY_MS}ms", "--callback-ms", str(CALLBACK_MS))
    given = ("--session", "6s", "--heartbeat", f"{HEARTBEAT_MS}ms", "--json")

    async def scenario() -> None:
        live = await begun(kohort, name, **CLASSIC)
        await pass_time(3 * HEARTBEAT_MS)
        printed = (await asyncio.to_thread(kohort, *words, *given)).json
        (forecast,) = printed["forecasts"]
        assert (printed["type"], forecast["is_settled"], forecast["rebalances"]) == ("classic", True, 6)
        assert [each["name"] for each in printed["members"]] == list(NAMES)
        live.ledger.begin()
        began_ms = now_ms()
        for each in NAMES:
            await live.stop(each)
            await pass_time(AWAY_MS)
            await live.start(each)
            await live.settle()
        await live.end()
        duration_s, unread_s = (live.ended_ms - began_ms) / 1000, live.ledger.unread_ms / 1000
        found = (forecast["duration_s"], duration_s, forecast["unread_partition_s"], unread_s)
        assert forecast["duration_s"] == pytest.approx(duration_s, rel=0.2), found
        assert forecast["unread_partition_s"] == pytest.approx(unread_s, rel=0.2), found

    asyncio.run(scenario())


@pytest.mark.timeout(180)
def test_consumer_group_on_kafka_learns_with_its_next_heartbeat_and_is_compared(kohort: Commands, name: str) -> None:
    async def scenario() -> None:
        live = await begun(kohort, name, protocol="consumer")
        added = (await asyncio.to_thread(kohort, "what-if", name, "--add", "3", "--json")).json
        compared = (await asyncio.to_thread(kohort, "what-if", name, "--compare", "--pause", "20s", "--json")).json
        await live.end()
        (forecast,) = added["forecasts"]
        assert (added["type"], added["assignor"], forecast["is_settled"]) == ("consumer", "uniform", True)
        # A member learns of a revocation, or of a new partition, with its next heartbeat: not at once.
        assert 0.5 < forecast["duration_s"] <= 16
        assert forecast["moves"] == 6
        assert [each["variant"] for each in compared["forecasts"]] == ["eager", "cooperative", "static", "consumer"]
        assert compared["now"] == "consumer"
        assert all(each["is_settled"] for each in compared["forecasts"])

    asyncio.run(scenario())
