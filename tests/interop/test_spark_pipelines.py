"""Spark Declarative Pipelines: the command `spark-pipelines` fills the streaming table of the guide from a topic."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("grpc")
pytest.importorskip("yaml")
pytest.importorskip("pyspark")

from interop.spark_versions import OLDEST, python_with
from pyarrow import parquet
from tests.spark.cluster import Topic

from kohort.broker.embedded import EmbeddedBroker
from kohort.spark.java import java_home

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2400)]
PROJECT = Path(__file__).parents[2] / "examples" / "spark_pipeline"
HIVE = ("--conf", "spark.sql.catalogImplementation=hive")
"""The catalog of the guide: Spark's default one forgets the tables between two runs."""


@pytest.mark.parametrize("version", ["newest", OLDEST])
def test_each_run_of_a_pipeline_appends_what_is_new_and_a_full_refresh_reads_everything(
    version: str, tmp_path: Path
) -> None:
    python = Path(sys.executable) if version == "newest" else python_with(version)
    with (
        EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker,
        Topic(broker.bootstrap_servers, "flights", partitions=3) as topic,
    ):
        topic.group_id = "flights-table"
        project = copy_of_project(tmp_path, topic)
        values = topic.fill(10)
        for arguments in (["run"], ["run"], ["run", "--full-refresh-all"]):
            run_pipeline(python, project, *arguments)
            assert Counter(rows(project / "spark-warehouse" / "flights")) == Counter(values)
            assert sum(topic.committed().values()) == len(values)
            assert topic.members() == 0
            if arguments == ["run"]:
                values += topic.fill(6)


def copy_of_project(folder: Path, topic: Topic) -> Path:
    """Return a copy of the guide's project that reads from this broker and stores in this folder."""
    project = Path(shutil.copytree(PROJECT, folder / "flights"))
    for path in (project / "spark-pipeline.yml", project / "transformations" / "flights.py"):
        text = path.read_text().replace("localhost:9092", topic.bootstrap_servers)
        path.write_text(text.replace("/srv/flights-pipeline", str(folder)))
    return project


def run_pipeline(python: Path, project: Path, *arguments: str) -> None:
    found = subprocess.run(
        [python, "-c", "import pyspark; print(*pyspark.__path__)"], capture_output=True, text=True, check=True
    )
    home = Path(found.stdout.strip())
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environ |= {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(home), "JAVA_HOME": str(java_home())}
    environ |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(home / "bin" / "spark-pipelines"), arguments[0], *HIVE, *arguments[1:]]
    outcome = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout[-3000:] + outcome.stderr[-6000:]


def rows(table: Path) -> list[bytes]:
    """Return the values in a table's files."""
    return [value for path in table.glob("*.parquet") for value in parquet.read_table(path)["value"].to_pylist()]
