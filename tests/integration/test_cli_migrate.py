"""`kohort migrate` with live members: what a plan predicts happens, what is unsafe is refused, a watch ends."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from tests.integration.commands import Commands
from tests.integration.rolling import Roll

from kohort import Admin
from kohort.broker.embedded import EmbeddedBroker
from kohort.cli.group_state.group_events import recent_history
from kohort.model.ids import TopicPartition

NAMES = ("m-1", "m-2", "m-3")


def at(kohort: Commands, address: str) -> Commands:
    """Return the command line against another broker."""
    return Commands(address, kohort.capture, kohort.directory, kohort.monkeypatch)


async def moved(kohort: Commands, group: str, since: int) -> tuple[int, int]:
    """Return how many partitions went from one member to another in all rebalances after the first `since`."""
    async with asyncio.timeout(20):
        while True:
            outcome = await asyncio.to_thread(kohort, "explain", group, "--json", "--last", "100")
            if outcome.status:  # a new broker stores its first events some milliseconds after the round
                continue
            explained = outcome.json
            lately = [each for each in explained["rebalances"] if each["number"] > since]
            is_over = (
                explained["running"] is None and explained["state"] == "Stable" and explained["members"] == len(NAMES)
            )
            if is_over and any(each["joined"] for each in lately):
                break
    flows = [flow for each in lately for flow in each["moved"] if flow["from"] and flow["to"]]
    count = sum(len(numbers) for flow in flows for numbers in flow["partitions"].values())
    return count, max(each["number"] for each in explained["rebalances"])


async def owners(address: str, group: str) -> dict[TopicPartition, str]:
    """Return who owns what, as the group is described."""
    async with Admin(address) as admin:
        described = (await admin.describe_groups([group]))[group]
    return {partition: member.member_id for member in described.members for partition in member.assignment}


def test_every_restart_moves_what_the_plan_predicted_and_a_watch_ends_with_the_last(kohort: Commands) -> None:
    async def scenario() -> None:
        roll = Roll(kohort.address, "rolled", NAMES, 12)
        await roll.begin()
        for protocol, type_after in (("consumer", "consumer"), ("classic", "classic")):
            plan = (await asyncio.to_thread(kohort, "migrate", "plan", "rolled", "--to", protocol, "--json")).json
            assert plan["is_safe"]
            assert [each["name"] for each in plan["restarts"]] == list(NAMES)
            _, seen = await moved(kohort, "rolled", 0)
            with kohort.start("migrate", "watch", "rolled", "--to", protocol, "--json", "--interval", "50ms") as watch:
                assert watch.stdout is not None
                first = json.loads(await asyncio.to_thread(watch.stdout.readline))
                assert (first["there"], first["expected"], len(first["left"])) == (0, 3, 3)
                for restart in plan["restarts"]:
                    await roll.restart(restart["name"], protocol)
                    count, seen = await moved(kohort, "rolled", seen)
                    assert count == restart["moves"], restart
                    explained = await recent_history(kohort.address, {}, "rolled")
                    assert explained.owners == await owners(kohort.address, "rolled")
                lines = [json.loads(line) for line in (await asyncio.to_thread(watch.stdout.read)).splitlines()]
                assert (await asyncio.to_thread(watch.wait), lines[-1]["is_done"], lines[-1]["left"]) == (0, True, [])
            described = (await asyncio.to_thread(kohort, "groups", "describe", "rolled", "--json")).json
            assert (described["type"], described["state"], len(described["members"])) == (type_after, "Stable", 3)
        await roll.end()

    asyncio.run(scenario())
    explained = kohort("explain", "rolled", "--last", "100").out
    assert "; converted to the consumer protocol by m-1" in explained
    assert "converted to the classic protocol, m-3" in explained
    assert explained.count("the conversion itself revoked nothing") == 4, (
        "each conversion, in its sentence and in its chain"
    )


def test_explain_reads_a_consumer_group_from_the_data_directory_of_a_stopped_broker(
    kohort: Commands, tmp_path: Path
) -> None:
    with EmbeddedBroker(tmp_path / "data", group_initial_rebalance_delay_ms=0) as broker:
        there = at(kohort, broker.bootstrap_servers)

        async def scenario() -> None:
            roll = Roll(there.address, "left", ("m-1", "m-2"), 4)
            await roll.begin("consumer")
            await roll.end()

        asyncio.run(scenario())
        there.until_state("left", "Empty")
        alive = there("explain", "left").out
    assert "group epoch 1→" in alive
    assert kohort("explain", "left", "--data-dir", str(tmp_path / "data")).out == alive


def test_members_of_a_consumer_group_are_described_with_types_epochs_and_targets(kohort: Commands) -> None:
    async def scenario() -> tuple[Any, list[list[str]], str, str]:
        roll = Roll(kohort.address, "typed", ("m-1", "m-2"), 4)
        await roll.begin("consumer")
        await roll.restart("m-2", "classic")
        described = (await asyncio.to_thread(kohort, "groups", "describe", "typed", "--json")).json
        rows = (await asyncio.to_thread(kohort, "groups", "describe", "typed", "--members")).rows
        consumers = (await asyncio.to_thread(kohort, "groups", "list", "--type", "consumer", "--state", "stable")).out
        classics = (await asyncio.to_thread(kohort, "groups", "list", "--type", "classic")).out
        await roll.end()
        return described, rows, consumers, classics

    described, rows, consumers, classics = asyncio.run(scenario())
    assert (described["type"], described["protocol"]) == ("consumer", "uniform")
    assert described["epoch"] == described["target_epoch"] >= 4
    by_client = {each["client"]: each for each in described["members"]}
    assert [by_client[name]["type"] for name in ("m-1", "m-2")] == ["consumer", "classic"]
    for each in described["members"]:
        assert each["assigned"] == each["target"]
        assert (each["epoch"], each["topics"], each["phase"]) == (described["epoch"], ["typed"], "Stable")
    assert rows[-3][4:9] == ["TYPE", "PHASE", "EPOCH", "ASSIGNED", "TARGET"]
    assert "typed" in consumers
    assert "typed" not in classics


def test_unsafe_way_is_refused_with_the_rule_and_a_status(kohort: Commands) -> None:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy="downgrade") as broker:
        narrow = at(kohort, broker.bootstrap_servers)

        async def scenario() -> None:
            roll = Roll(narrow.address, "kept", ("m-1",), 2)
            await roll.begin()
            outcome = await asyncio.to_thread(narrow, "migrate", "plan", "kept", "--to", "consumer")
            assert outcome.status == 1
            assert outcome.err == (
                "kohort: kept cannot go to consumer safely, rule policy: group.consumer.migration.policy is downgrade: "
                "it may not become a consumer group\n"
            )
            document = (await asyncio.to_thread(narrow, "migrate", "plan", "kept", "--to", "consumer", "--json")).json
            assert (document["is_safe"], document["restarts"]) == (False, [])
            assert [each["rule"] for each in document["refusals"]] == ["policy"]
            await roll.end()

        asyncio.run(scenario())


def test_group_that_does_not_exist_and_a_goal_that_does_not_are_usage(kohort: Commands) -> None:
    asyncio.run(one_member(kohort, "named"))
    unknown = kohort("migrate", "plan", "nmaed", "--to", "consumer")
    assert (unknown.status, "did you mean 'named'?" in unknown.err) == (2, True)
    watched = kohort("migrate", "watch", "nmaed")
    assert (watched.status, "did you mean 'named'?" in watched.err) == (2, True)
    goal = kohort("migrate", "plan", "named", "--to", "streams")
    assert (goal.status, "is none of cooperative, consumer, classic" in goal.err) == (2, True)
    assigned = kohort("migrate", "plan", "named", "--to", "consumer", "--assignor", "best")
    assert (assigned.status, "there is no server-side assignor 'best'" in assigned.err) == (2, True)
    assert kohort("migrate", "plan", "named", "--to", "consumer").out.splitlines()[-1] == (
        "nothing to do: it has no members: start them with the new settings, in any order"
    )


async def one_member(kohort: Commands, group: str) -> None:
    roll = Roll(kohort.address, group, ("m-1",), 2)
    await roll.begin()
    await roll.end()


def test_interrupted_watch_prints_the_remaining_members(kohort: Commands) -> None:
    async def scenario() -> None:
        roll = Roll(kohort.address, "long", ("m-1", "m-2"), 2)
        await roll.begin()
        with kohort.start("migrate", "watch", "long") as watch:
            assert watch.stdout is not None
            line = await asyncio.to_thread(watch.stdout.readline)
            assert b"classic, Stable: 0 of 2 members use the consumer protocol, left m-1, m-2" in line
            watch.send_signal(signal.SIGINT)
            _, complaints = await asyncio.to_thread(watch.communicate)
        assert (watch.returncode, b"kohort: not over yet, classic, Stable: 0 of 2" in complaints) == (130, True)
        assert b"Traceback" not in complaints
        await roll.end()

    asyncio.run(scenario())
