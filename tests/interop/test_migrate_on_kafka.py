"""`kohort migrate` and `kohort groups` on a real Apache Kafka: a live group is planned, rolled, watched, described."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from interop.kafka import ApacheKafka
from tests.integration.commands import Commands
from tests.integration.rolling import Roll

NAMES = ("m-1", "m-2")


@pytest.fixture
def kohort(
    apache: ApacheKafka, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Commands:
    """Return the command line against Apache Kafka."""
    return Commands(apache.bootstrap, capfdbinary, tmp_path, monkeypatch)


@pytest.mark.timeout(180)
def test_group_on_kafka_is_planned_rolled_and_watched_there_and_back(kohort: Commands, name: str) -> None:
    async def scenario() -> None:
        roll = Roll(kohort.address, name, NAMES, 6)
        await roll.begin()
        for protocol in ("consumer", "classic"):
            plan = (await asyncio.to_thread(kohort, "migrate", "plan", name, "--to", protocol, "--json")).json
            assert plan["is_safe"], plan["refusals"]
            assert [each["name"] for each in plan["restarts"]] == list(NAMES)
            assert [each["moves"] for each in plan["restarts"]] == [6, 6], "three there, three back"
            with kohort.start("migrate", "watch", name, "--to", protocol, "--json") as watch:
                assert watch.stdout is not None
                first = json.loads(await asyncio.to_thread(watch.stdout.readline))
                assert (first["there"], first["expected"]) == (0, 2)
                for member in NAMES:
                    await roll.restart(member, protocol)
                await asyncio.to_thread(watch.stdout.read)
                assert await asyncio.to_thread(watch.wait) == 0
            described = (await asyncio.to_thread(kohort, "groups", "describe", name, "--json")).json
            assert (described["type"], described["state"]) == (protocol, "Stable")
            if protocol == "consumer":
                assert described["epoch"] == described["target_epoch"] > 0
                assert {each["type"] for each in described["members"]} == {"consumer"}
                listed = (await asyncio.to_thread(kohort, "groups", "list", "--type", "consumer", "--json")).json
                assert name in [each["group"] for each in listed]
        await roll.end()

    asyncio.run(scenario())


def test_cooperative_plan_and_its_assumptions_are_printed_on_kafka(kohort: Commands, name: str) -> None:
    async def scenario() -> str:
        roll = Roll(kohort.address, name, NAMES, 6)
        await roll.begin()
        output = (await asyncio.to_thread(kohort, "migrate", "plan", name, "--to", "cooperative")).out
        await roll.end()
        return output

    output = asyncio.run(scenario())
    assert "4 restarts, one after another" in output
    assert "- which assignors classic members offer is not described: all are taken to offer range" in output
    assert "- classic members send a heartbeat every 3 s" in output
