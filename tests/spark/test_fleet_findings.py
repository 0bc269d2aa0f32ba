"""Spark brings together for the rules what plain loops over the same log do: from segment files to findings."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.unit.fleet.facts_of_a_fleet import findings_of

from kohort.fleet import pipeline
from kohort.fleet.generator import generate
from kohort.fleet.inputs import parse_inputs
from kohort.fleet.schema import FINDINGS
from kohort.fleet.tables import Tables

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

STORIES = (
    "eager",
    "gone",
    "idle consumer",
    "poll timeouts",
    "restless",
    "simple",
    "skewed",
    "skewed consumer",
    "storm eager",
    "streams, cleaned",
    "transactional",
    "two of one name",
    "zombie",
)


def test_a_run_finds_what_the_rules_find_in_the_same_log(spark: SparkSession, tmp_path: Path) -> None:
    truth = generate(tmp_path / "log", groups=len(STORIES) + 4, seed=5, stories=STORIES, partitions=2)
    pipeline.run(spark, parse_inputs([str(tmp_path / "log")]), tmp_path / "tables")
    rows = Tables(tmp_path / "tables").frame(spark, FINDINGS).collect()
    found = {(row["group"], row["finding"], row["sentence"], row["severity"]) for row in rows}
    # In the tables the log ends with its last record, not with its day.
    now_ms = max(row["until_ms"] for row in rows)
    told = findings_of(tmp_path / "log", now_ms)
    assert found == {(each.group, each.finding, each.sentence, each.severity) for each in told}
    assert truth.mistakes((row["group"], row["finding"]) for row in rows) == []
    assert all(row["evidence"] for row in rows)
