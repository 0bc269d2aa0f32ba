"""A run of a fleet in Spark's executors writes the rows that one in processes of this machine writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.fleets import generate
from tests.integration.test_fleet_findings import rows_of

from kohort.cli.fleet.fleet_session import spark_faults
from kohort.cli.terminal.failure import CommandFailed
from kohort.fleet import pipeline
from kohort.fleet.inputs.input_kinds import parse_inputs
from kohort.fleet.run_tasks import LocalTasks, SparkTasks
from kohort.fleet.schema import GROUP_HOURS, STATE_TABLES, TABLES
from kohort.fleet.tables import Tables

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SCENARIOS = ("gone", "restless", "simple", "streams, cleaned", "transactional", "zombie")


def test_executors_write_what_processes_of_this_machine_write(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "MANY_RECORDS", 0)
    generate(tmp_path / "log", groups=len(SCENARIOS), seed=7, scenarios=SCENARIOS, partitions=3)
    inputs = parse_inputs([f"made={tmp_path / 'log'}"])
    for where, tasks in (("spark", SparkTasks(spark)), ("pool", LocalTasks(2)), ("here", LocalTasks(1))):
        assert pipeline.run(inputs, tmp_path / where, tasks=tasks).is_new
    for table in (*TABLES, *STATE_TABLES):
        expected = rows_of(Tables(tmp_path / "here"), table)
        assert rows_of(Tables(tmp_path / "spark"), table) == expected, table.path
        assert rows_of(Tables(tmp_path / "pool"), table) == expected, table.path
    tables = Tables(tmp_path / "here")
    frame = tables.frame(spark, GROUP_HOURS)
    assert frame.columns == list(GROUP_HOURS.names)
    assert frame.count() == len(rows_of(tables, GROUP_HOURS))
    file = tables.files(GROUP_HOURS)[0]
    (tmp_path / "here" / GROUP_HOURS.path / file.path).unlink()
    with pytest.raises(CommandFailed, match=r"gold/group_hours: .* not found|No such file"), spark_faults():
        frame.collect()
