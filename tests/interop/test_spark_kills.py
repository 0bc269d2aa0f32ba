"""Spark applications that share a group and a table in files, killed at any moment, on both brokers."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

import pytest
from interop.brokers import Broker
from tests.spark.cluster import Topic
from tests.spark.killing import kill_streams

pytestmark = [pytest.mark.timeout(1200), pytest.mark.spark]


def test_spark_applications_that_share_a_group_and_are_killed_leave_each_record_once(
    broker: Broker, tmp_path: Path
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("pyspark")
    from kohort.spark.tables import ManifestTable

    table = ManifestTable(tmp_path / "flights")
    with Topic(broker.bootstrap, f"t-{uuid.uuid4().hex[:8]}", partitions=3) as topic:
        written = kill_streams(topic, "manifest", str(tmp_path), "flights", table, 2)
        ends = {partition.partition: held.offset or 0 for partition, held in table.held(topic.group_id).items()}
    places: Counter[tuple[int, int]] = Counter()
    for each in table.files:
        rows = parquet.read_table(table.path / each.path).to_pydict()
        places.update(zip(rows["partition"], rows["offset"], strict=True))
    assert places == Counter((partition, offset) for partition, end in ends.items() for offset in range(end))
    assert places.total() == written
