"""A run brings together for the rules what plain loops over the same log do: from segment files to findings."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.fleets import generate
from tests.fleets.mistakes import mistakes
from tests.unit.fleet.facts_of_a_fleet import findings_of

from kohort.broker.embedded import EmbeddedBroker
from kohort.fleet import pipeline
from kohort.fleet.ground_truth import Truth
from kohort.fleet.inputs.input_kinds import parse_inputs
from kohort.fleet.schema import EVENTS, FINDINGS, GROUPS, OWNERSHIP, STATE_TABLES, TABLES, Table
from kohort.fleet.tables import Tables
from kohort.model.ids import TopicPartition
from kohort.sync import Admin, Consumer
from kohort.wire.record_batches import iter_batches

pytestmark = pytest.mark.timeout(900)

SCENARIOS = (
    "eager",
    "gone",
    "gone streams",
    "halted streams",
    "held streams",
    "idle consumer",
    "poll timeouts",
    "restless",
    "simple",
    "skewed",
    "skewed consumer",
    "static streams",
    "storm eager",
    "storm streams",
    "streams",
    "streams 4.3",
    "streams, cleaned",
    "threads without tasks",
    "transactional",
    "two of one name",
    "zombie",
)


@pytest.fixture(scope="module")
def live_group(shared_broker: EmbeddedBroker) -> str:
    """A group that was there, on a real broker."""
    with Admin(bootstrap_servers=shared_broker.bootstrap_servers) as admin:
        admin.create_topic("orders", 3)
    with Consumer("orders", bootstrap_servers=shared_broker.bootstrap_servers, group_id="fleet-orders") as consumer:
        consumer.poll(timeout_ms=1_000)
        consumer.commit({TopicPartition("orders", number): 1 for number in range(3)})
    return "fleet-orders"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """The log of a generated fleet, and what is true of it."""
    log = tmp_path_factory.mktemp("fleet") / "log"
    return log, generate(log, groups=len(SCENARIOS) + 4, seed=5, scenarios=SCENARIOS, partitions=2)


@pytest.fixture(scope="module")
def tables(
    shared_broker: EmbeddedBroker, live_group: str, fleet: tuple[Path, Truth], tmp_path_factory: pytest.TempPathFactory
) -> Tables:
    """What one run made of both."""
    assert live_group
    directory = tmp_path_factory.mktemp("fleet") / "tables"
    summary = pipeline.run(parse_inputs([f"made={fleet[0]}", f"here={shared_broker.data_dir}"]), directory)
    assert summary.is_new
    return Tables(directory)


def test_a_run_finds_what_the_rules_find_in_the_same_log(fleet: tuple[Path, Truth], tables: Tables) -> None:
    log, truth = fleet
    rows = [row for row in tables.small_rows(FINDINGS) if row["source"] == "made"]
    found = {(row["group"], row["finding"], row["sentence"], row["severity"]) for row in rows}
    # In the tables the log ends with its last record, not with its day.
    now_ms = max(row["until_ms"] for row in rows if row["finding"] == "abandoned_group")
    expected = findings_of(log, now_ms)
    assert found == {(each.group, each.finding, each.sentence, each.severity) for each in expected}
    assert mistakes(truth, ((row["group"], row["finding"]) for row in rows)) == []
    assert all(row["evidence"] for row in rows)


def test_groups_of_a_stopped_broker_are_decoded_from_its_files(live_group: str, tables: Tables) -> None:
    def of(table: Table) -> list[dict[str, Any]]:
        rows = [row for batch in tables.rows(table).batches() for row in batch.to_pylist()]
        return [row for row in rows if (row["source"], row["group"]) == ("here", live_group)]

    (group,) = of(GROUPS)
    assert (group["members"], group["committed_partitions"], group["state"]) == (0, 3, "Empty")
    events = {each["event"] for each in of(EVENTS)}
    assert {"joined", "assigned", "settled", "left", "lost", "emptied"} <= events
    assert sorted(each["topic_partition"] for each in of(OWNERSHIP)) == [0, 1, 2]


RUNS = 3


def rows_of(tables: Tables, table: Table) -> list[str]:
    """Return the rows of a table without what depends on when they were read."""
    rows = [row for batch in tables.rows(table).batches() for row in batch.to_pylist()]
    return sorted(repr([value for name, value in row.items() if name not in ("run", "folded")]) for row in rows)


def test_runs_that_read_a_log_piece_by_piece_find_what_one_run_finds(fleet: tuple[Path, Truth], tmp_path: Path) -> None:
    """Each run is given the log as it was, cut between two batches at another place in each partition."""
    once, pieces = tmp_path / "once", tmp_path / "pieces"
    pipeline.run(parse_inputs([f"made={fleet[0]}"]), once)
    for number in range(1, RUNS + 1):
        log = tmp_path / f"log-{number}"
        shutil.copytree(fleet[0], log)
        for place, segment in enumerate(sorted(log.rglob("*.log"))):
            content = segment.read_bytes()
            sizes = [len(batch) for _, batch in iter_batches(content)]
            kept = len(sizes) * number // RUNS - (place % 3 if number < RUNS else 0)
            segment.write_bytes(content[: sum(sizes[: max(kept, 0)])])
        assert pipeline.run(parse_inputs([f"made={log}"]), pieces).is_new
    for table in (*TABLES, *STATE_TABLES):
        assert rows_of(Tables(pieces), table) == rows_of(Tables(once), table), table.path
