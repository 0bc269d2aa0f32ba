"""Spark applications that share a group and a lakehouse table, killed at any moment, on both brokers."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

import pytest
from interop.brokers import Broker
from tests.spark.cluster import Topic
from tests.spark.killing import kill_streams
from tests.spark.lake import KINDS, lake_table, offsets_of, rows_in

pytestmark = [pytest.mark.timeout(1200), pytest.mark.spark]


@pytest.mark.parametrize("kind", KINDS)
def test_spark_applications_that_share_a_group_and_are_killed_leave_each_record_once(
    kind: str, broker: Broker, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    table = lake_table(kind, tmp_path)
    with Topic(broker.bootstrap, f"t-{uuid.uuid4().hex[:8]}", partitions=3) as topic:
        written = kill_streams(topic, kind, str(tmp_path), "flights", table, 2)
        ends = offsets_of(table, topic)
    places = Counter((row["partition"], row["offset"]) for row in rows_in(table))
    assert places == Counter((partition, offset) for partition, end in ends.items() for offset in range(end))
    assert places.total() == written
