"""`kohort what-if` as a command: what it prints, what it draws, what it refuses, and that it changes nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.integration.commands import Commands
from tests.integration.rolling import Roll

from kohort import Producer
from kohort.broker.embedded import EmbeddedBroker

NAMES = ("m-1", "m-2", "m-3")
FAST = ("--produce-rate", "600", "--network-ms", "1", "--callback-ms", "200")


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Return a broker whose data directory is known."""
    with EmbeddedBroker(tmp_path_factory.mktemp("what-if"), group_initial_rebalance_delay_ms=0) as broker:
        yield broker


def with_group(kohort: Commands, name: str, work: Any, protocol: str = "classic") -> None:
    """Run `work` in a thread while a group of three shares twelve partitions."""

    async def scenario() -> None:
        roll = Roll(kohort.address, name, NAMES, 12)
        await roll.begin(protocol)
        try:
            await asyncio.to_thread(work)
        finally:
            await roll.end()

    asyncio.run(scenario())


def test_forecast_says_what_was_and_what_will_be_and_what_lies_between(kohort: Commands) -> None:
    def work() -> None:
        outcome = kohort("what-if", "shown", "--kill", "m-2", "--add", "3", *FAST)
        assert outcome.status == 0
        lines = outcome.out.splitlines()
        assert lines[0].startswith("shown: classic, Stable, 3 members, 12 partitions, assignor range")
        assert lines[1] == "what if m-2 dies and 3 members join:"
        rows = {line.rpartition("  ")[0].split("  ")[0]: line.split()[-2:] for line in lines}
        assert rows["members"] == ["3", "5"]
        assert rows["most of a member"] == ["4", "3"]
        assert "moves       9" in lines
        assert any(line.startswith("lag growth") and "of one partition" in line for line in lines)

    with_group(kohort, "shown", work)


def test_json_has_the_documented_fields(kohort: Commands) -> None:
    def work() -> None:
        outcome = kohort("what-if", "documented", "--bounce", "rolling", "--away", "20s", "--json", *FAST).json
        assert list(outcome) == [
            "group", "type", "state", "assignor", "change", "now", "members", "lag", "produce_rate", "times",
            "forecasts", "measured", "assumed",
        ]  # fmt: skip
        assert outcome["change"] == "every member is restarted, one after another"
        assert [each["name"] for each in outcome["members"]] == list(NAMES)
        assert (outcome["produce_rate"], outcome["times"]["away_ms"]) == (600, 20_000)
        (found,) = outcome["forecasts"]
        assert list(found) == [
            "variant", "is_settled", "duration_s", "rebalances", "rounds", "moves", "unowned_partition_s",
            "unread_partition_s", "longest_unread_s", "lag_growth", "worst_partition", "worst_lag_growth", "before",
            "after", "failures",
        ]  # fmt: skip
        assert (found["is_settled"], found["rebalances"], found["after"]["most"]) == (True, 6, 4)
        assert found["lag_growth"] == pytest.approx(50 * found["unread_partition_s"], rel=0.01)

    with_group(kohort, "documented", work)


def test_protocols_stand_side_by_side_in_one_table_and_one_page(kohort: Commands, tmp_path: Path) -> None:
    def work() -> None:
        page = tmp_path / "roll.html"
        outcome = kohort("what-if", "compared", "--compare", "--html", str(page), *FAST)
        assert outcome.status == 0, outcome.err
        text = page.read_text()
        answer = re.sub("<[^>]+>", "", text.partition("<h1>")[2].partition("</h1>")[0])
        assert re.match(r"compared would lose least as \w+, [\d.]+ partition-seconds unread \(as it is now: ", answer)
        assert answer.endswith(" if every member is restarted, one after another.")
        headings = [
            each.text
            for each in ElementTree.fromstring(text.partition("\n")[2]).iter()
            if each.get("class") == "heading"
        ]
        assert headings[::2] == ["eager", "cooperative", "static", "consumer"]
        head, *rows = [line.split("  ")[0] for line in outcome.out.splitlines()[3:8]]
        assert (head, rows) == ("PROTOCOL", ["eager", "cooperative", "static", "consumer (now)"])

    with_group(kohort, "compared", work, "consumer")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_forecast_from_a_data_directory_is_that_of_the_live_group_and_writes_no_byte(
    kohort: Commands, shared_broker: EmbeddedBroker, protocol: str
) -> None:
    group = f"stored-{protocol}"
    directory = Path(shared_broker.data_dir)

    def content() -> dict[Path, tuple[int, bytes]]:
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in directory.rglob("*") if path.is_file()}

    def work() -> None:
        words = ("what-if", group, "--bounce", "rolling", "--add", "1", "--json", *FAST)
        live = kohort(*words).json
        kohort.until_state(group, "Stable")
        before = content()
        stored = kohort(*words, "--data-dir", str(directory)).json
        assert content() == before
        assert stored["members"] == live["members"]
        assert stored["forecasts"] == live["forecasts"]

    with_group(kohort, group, work, protocol)


def test_forecast_leaves_the_live_group_alone(kohort: Commands) -> None:
    def look() -> list[Any]:
        found = kohort("groups", "describe", "untouched", "--members", "--json").json
        return [found[name] for name in ("type", "state", "protocol", "members")]  # what else it says comes from events

    def work() -> None:
        before = look()
        assert kohort("what-if", "untouched", "--kill", "m-1", "--protocol", "consumer", *FAST).status == 0
        assert look() == before

    with_group(kohort, "untouched", work)


def test_produce_rate_is_measured_where_it_is_not_given(kohort: Commands) -> None:
    async def produce(stop: asyncio.Event) -> None:
        async with Producer(bootstrap_servers=kohort.address) as producer:
            while not stop.is_set():
                await asyncio.gather(*[producer.send("written", b"x") for _ in range(10)])

    async def scenario() -> None:
        roll = Roll(kohort.address, "written", NAMES, 12)
        await roll.begin()
        stop = asyncio.Event()
        producing = asyncio.create_task(produce(stop))
        outcome = (await asyncio.to_thread(kohort, "what-if", "written", "--stop", "m-1", "--json")).json
        stop.set()
        await producing
        await roll.end()
        assert outcome["produce_rate"] > 10
        assert outcome["forecasts"][0]["lag_growth"] is not None
        assert any("records/s are written" in each for each in outcome["measured"])

    asyncio.run(scenario())


REFUSED = {
    (): "give a change: --add, --kill, --stop, --partitions, --bounce, --protocol or --assignor",
    ("--compare", "--protocol", "consumer"): "--compare tries every protocol by itself",
    ("--kill", "m-7"): "there is no member 'm-7': did you mean",
    ("--kill", "m-1", "--kill", "m-2", "--stop", "m-3"): "no member would be left: leave one member, or add some",
    ("--partitions", "refused=4"): "refused has 12 partitions, and topics only grow",
    ("--assignor", "uniform"): "uniform is an assignor of the consumer protocol: add --protocol consumer",
    ("--partitions", "refused"): "'refused' is not NAME=VALUE",
    ("--add", "0"): "'0' is not a number of members: expected a whole number from 1 on",
    ("--add", "1", "--html", "roll.pdf"): "'roll.pdf' is no HTML file: its name must end in .html",
    ("--add", "1", "--callback-ms", "soon"): "'soon' is no number of milliseconds such as 250",
}


def test_what_means_nothing_is_refused_with_what_to_do(kohort: Commands) -> None:
    def work() -> None:
        for words, text in REFUSED.items():
            outcome = kohort("what-if", "refused", *words)
            assert (outcome.status, outcome.out) == (2, ""), words
            assert text in outcome.err, words

    with_group(kohort, "refused", work)
    missing = kohort("what-if", "missing", "--add", "1")
    assert (missing.status, "there is no group 'missing'" in missing.err) == (2, True)


def test_directory_that_is_no_brokers_is_refused(kohort: Commands, tmp_path: Path) -> None:
    for directory, text in ((tmp_path / "no", "there is no directory"), (tmp_path, "it has no metadata")):
        outcome = kohort("what-if", "readers", "--add", "1", "--data-dir", str(directory))
        assert (outcome.status, text in outcome.err) == (2, True)


def test_group_without_members_has_nothing_to_forecast(kohort: Commands) -> None:
    async def scenario() -> None:
        roll = Roll(kohort.address, "emptied", ("m-1",), 1)
        await roll.begin()
        await roll.end()

    asyncio.run(scenario())
    outcome = kohort("what-if", "emptied", "--add", "1")
    assert (outcome.status, "emptied has no members" in outcome.err) == (2, True)
