"""`kohort explain` with members that are alive, on a broker that runs and on what one left behind."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.commands import Commands
from tests.integration.old_member import OldMember

from kohort import Admin, Consumer, RangeAssignor
from kohort.broker.embedded import EmbeddedBroker
from kohort.client import Cluster
from kohort.model.errors import KafkaError

FIELDS = [
    "group", "sentence", "number", "outcome", "from_type", "to_type", "from_generation", "to_generation",
    "started_ms", "ended_ms",
    "duration_ms", "cause", "is_partial", "restarts", "avoided_before", "members", "shares", "joined", "left",
    "evicted", "fenced", "partitions_before", "partitions", "stayed", "moved", "unowned_partitions",
    "unowned_partition_s", "silent_partition_s", "slowest_rejoin", "longest_missed", "slowest_sync", "slowest_revoke",
    "slowest_reconcile",
    "waits_for", "rounds", "epochs", "conversions", "chain",
]  # fmt: skip
"""Of a rebalance in JSON; documented, so they stay."""


async def shared(address: str, topic: str, *, is_left: bool = True) -> None:
    """Let two members share a topic of four partitions; the second one leaves."""
    async with Admin(address) as admin:
        await admin.create_topic(topic, partitions=4)
    settings: dict[str, Any] = {"bootstrap_servers": address, "group_id": topic, "heartbeat_interval_ms": 100}
    async with Consumer(topic, client_id="alice", **settings) as alice:
        await until(lambda: len(alice.assignment()) == 4, alice)
        async with Consumer(topic, client_id="bob", **settings) as bob:
            await until(lambda: len(alice.assignment()) == len(bob.assignment()) == 2, alice, bob)
        if is_left:
            await until(lambda: len(alice.assignment()) == 4, alice)


async def until(holds: Callable[[], bool], *consumers: Consumer) -> None:
    async with asyncio.timeout(20):
        while not holds():
            for consumer in consumers:
                await consumer.poll(timeout_ms=10)


def test_each_rebalance_is_printed_with_its_cause_and_its_cost(kohort: Commands) -> None:
    asyncio.run(shared(kohort.address, "shown"))
    kohort.until_state("shown", "Empty")
    lines = kohort("explain", "shown").out.splitlines()
    assert lines[0].startswith("shown: Empty, generation ")
    explained = [line.split("Z  ")[1] for line in lines if "Z  generation" in line]
    assert explained[0].startswith("generation 0→1: alice joined; 4 of 4 partitions unowned for ")
    assert explained[1].startswith("generation 1→")
    assert ": bob joined; " in explained[1]
    assert ": bob left (" in explained[2]
    assert any("2 of 4 partitions stayed, 2 from alice to bob" in line for line in lines)


def test_json_has_its_documented_fields_and_adds_up(kohort: Commands) -> None:
    asyncio.run(shared(kohort.address, "counted"))
    kohort.until_state("counted", "Empty")
    document = kohort("explain", "counted", "--json").json
    assert list(document) == [
        "group", "type", "state", "generation", "members", "partitions", "rebalances_total", "rebalances_avoided",
        "refused", "rebalances", "running", "warmups",
    ]  # fmt: skip
    for each in document["rebalances"]:
        assert list(each) == FIELDS
        moved = sum(len(numbers) for flow in each["moved"] for numbers in flow["partitions"].values() if flow["to"])
        assert each["stayed"] + moved == each["partitions"]
        assert each["outcome"] in ("stable", "empty")
    joined = document["rebalances"][1]
    assert (joined["cause"]["kind"], joined["unowned_partitions"] > 0) == ("member_joined", True)
    verbose = kohort("explain", "counted", "--json", "--verbose", "--last", "1").json
    assert [event["event"] for event in verbose["rebalances"][0]["events"]][-1] == "group_emptied"


def test_last_and_since_choose(kohort: Commands) -> None:
    asyncio.run(shared(kohort.address, "chosen"))
    kohort.until_state("chosen", "Empty")
    total = kohort("explain", "chosen", "--json").json["rebalances_total"]
    assert total >= 3
    assert len(kohort("explain", "chosen", "--json", "--last", "1").json["rebalances"]) == 1
    assert len(kohort("explain", "chosen", "--json", "--since", "1h").json["rebalances"]) == total
    assert kohort("explain", "chosen", "--json", "--since", "2100-01-01").json["rebalances"] == []
    refused = kohort("explain", "chosen", "--since", "yesterday")
    assert (refused.status, "how long ago, such as 30m or 2h" in refused.err) == (2, True)


def test_a_group_without_events_is_unknown(kohort: Commands) -> None:
    asyncio.run(shared(kohort.address, "known"))
    kohort.until_state("known", "Empty")
    outcome = kohort("explain", "knwon")
    assert (outcome.status, outcome.out) == (2, "")
    assert "there is no group 'knwon': did you mean 'known'?" in outcome.err


def test_follow_prints_a_rebalance_when_it_is_over(kohort: Commands) -> None:
    asyncio.run(shared(kohort.address, "watched"))
    with kohort.start("explain", "watched", "--follow", "--last", "0", "--json") as process:
        try:
            asyncio.run(shared_until_state(kohort.address, process))
        finally:
            process.terminate()
            process.communicate(timeout=30)
    assert process.returncode == 0


async def shared_until_state(address: str, process: subprocess.Popen[bytes]) -> None:
    """Let a member come and go until a line comes of it: the command needs a moment until it listens."""
    assert process.stdout is not None
    line = asyncio.ensure_future(asyncio.to_thread(process.stdout.readline))
    settings: dict[str, Any] = {"bootstrap_servers": address, "group_id": "watched"}
    async with asyncio.timeout(30):
        while not line.done():
            async with Consumer("watched", client_id="carol", **settings) as carol:
                await until(lambda: bool(carol.assignment()), carol)
    explained = json.loads(line.result())
    assert (explained["group"], explained["cause"]["kind"] in ("member_joined", "member_left")) == ("watched", True)


def test_explain_reads_the_data_directory_of_a_stopped_broker_without_writing_to_it(
    tmp_path: Path, kohort: Commands
) -> None:
    with EmbeddedBroker(tmp_path / "data", group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(shared(broker.bootstrap_servers, "left"))
        kohort_at(kohort, broker.bootstrap_servers).until_state("left", "Empty")
        alive = kohort_at(kohort, broker.bootstrap_servers)("explain", "left").out
    kohort.address = "127.0.0.1:1"
    segment = next((tmp_path / "data" / "__kohort_group_events-0").glob("*.log"))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")}
    assert kohort("explain", "left", "--data-dir", str(tmp_path / "data")).out == alive
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*")} == before
    torn = segment.read_bytes() + segment.read_bytes()[:70]  # the beginning of a batch, as a kill leaves it
    segment.write_bytes(torn)
    cut = kohort("explain", "left", "--data-dir", str(tmp_path / "data"))
    assert (cut.status, "generation 0→1: alice joined" in cut.out) == (0, True)
    assert segment.read_bytes() == torn, "explain repairs nothing"


def kohort_at(kohort: Commands, address: str) -> Commands:
    """Return the command line against another cluster."""
    return Commands(address, kohort.capture, kohort.directory, kohort.monkeypatch)


def test_events_saved_as_json_lines_are_explained_as_well(tmp_path: Path, kohort: Commands) -> None:
    asyncio.run(shared(kohort.address, "saved"))
    kohort.until_state("saved", "Empty")
    alive = kohort("explain", "saved").out
    saved = tmp_path / "events.jsonl"
    saved.write_text(
        kohort("consume", "__kohort_group_events", "--from-beginning", "--timeout-ms", "500").out + "no event\n"
    )
    assert kohort("explain", "saved", "--events", str(saved)).out == alive
    follow = kohort("explain", "saved", "--events", str(saved), "--follow")
    assert (follow.status, "--follow needs a broker that runs" in follow.err) == (2, True)


def test_a_directory_without_events_is_refused(tmp_path: Path, kohort: Commands) -> None:
    empty = kohort("explain", "any", "--data-dir", str(tmp_path))
    assert (empty.status, "has no group events" in empty.err) == (2, True)
    missing = kohort("explain", "any", "--data-dir", str(tmp_path / "nowhere"))
    assert (missing.status, "there is no directory" in missing.err) == (2, True)


def test_explain_distinguishes_a_broker_without_events_from_an_unknown_group(kohort: Commands) -> None:
    with EmbeddedBroker() as broker:
        silent = kohort_at(kohort, broker.bootstrap_servers)
        assert silent("topics", "create", "quiet", "--partitions", "1").status == 0
        assert silent("groups", "reset-offsets", "quiet", "--topic", "quiet", "--to-earliest", "--execute").status == 0
        outcome = silent("explain", "quiet")
        assert (outcome.status, outcome.out) == (1, "")
        assert "does not store why its groups rebalance" in outcome.err
        assert "`kohort groups describe quiet --members`" in outcome.err
        unknown = silent("explain", "quite")
        assert (unknown.status, "did you mean 'quiet'?" in unknown.err) == (2, True)


def test_every_command_reports_refused_joins_with_the_members_that_block_them(kohort: Commands) -> None:
    asyncio.run(refused_because_of_an_old_member(kohort))


async def refused_because_of_an_old_member(kohort: Commands) -> None:
    async with Admin(kohort.address) as admin:
        await admin.create_topic("guarded", partitions=4)
    settings: dict[str, Any] = {"bootstrap_servers": kohort.address, "group_id": "guarded"}
    cluster = Cluster(kohort.address, client_id="veteran")
    await cluster.start()
    async with Consumer(
        "guarded", client_id="alice", heartbeat_interval_ms=100, assignors=(RangeAssignor(),), **settings
    ) as alice:
        await until(lambda: len(alice.assignment()) == 4, alice)
        veteran = OldMember(cluster, "guarded", ("guarded",), ("range",))
        veteran.start()
        await until(lambda: len(alice.assignment()) == 2 and veteran.is_stable, alice)
        newcomer = Consumer("guarded", client_id="newcomer", group_protocol="consumer", **settings)
        with pytest.raises(KafkaError, match="veteran"):
            async with newcomer:
                await until(lambda: False, alice, newcomer)
        expected = (
            "newcomer (consumer protocol, /127.0.0.1) was refused with INVALID_REQUEST: group guarded cannot become a "
            "consumer group: member veteran has embedded protocol version 0 where 3 is needed"
        )
        async with asyncio.timeout(20):  # events linger a moment before they are written
            while expected not in (await asyncio.to_thread(kohort, "explain", "guarded")).out:
                await alice.poll(timeout_ms=10)
        (explained,) = (await asyncio.to_thread(kohort, "explain", "guarded", "--json")).json["refused"]
        assert (explained["error"], explained["client"], len(explained["in_the_way"])) == (
            "INVALID_REQUEST",
            "newcomer",
            1,
        )
        assert expected in (await asyncio.to_thread(kohort, "groups", "describe", "guarded")).out
        plan = await asyncio.to_thread(kohort, "migrate", "plan", "guarded", "--to", "consumer")
        assert expected in plan.out
        assert (
            "rule embedded_version: veteran: their metadata has version 0, a conversion takes 3 or newer; until then a "
            "restarted member is refused with INVALID_REQUEST" in plan.err
        )
        await veteran.leave()
    await cluster.close()
