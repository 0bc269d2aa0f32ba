"""A worker is decommissioned while a stream reads with its executor: each row is in the table once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from interop.process import Child
from interop.spark_cluster import SparkCluster
from tests.spark.cluster import Topic
from tests.spark.lake import lake_table, rows_in

from kohort.broker.embedded import EmbeddedBroker
from kohort.spark import GroupStream, build, exactly_once
from kohort.spark.rows.rounds import Round

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(900)]
DECOMMISSION = {"spark.decommission.enabled": "true", "spark.storage.decommission.enabled": "true"}


def test_a_decommissioned_worker_costs_no_row_and_doubles_none(tmp_path: Path) -> None:
    with (
        EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker,
        Topic(broker.bootstrap_servers, "flights", partitions=4) as topic,
        SparkCluster(2) as cluster,
    ):
        topic.fill(2000)
        leaving = cluster.workers[0]
        table = lake_table("delta", tmp_path, rows_on_driver=0)
        lost: list[Round] = []

        def finished(done: Round, is_done: bool) -> None:
            if not is_done:
                lost.append(done)
            if done.number == 2:
                assert has_executor(leaving), "its executor has read until now"
                cluster.decommission_worker(leaving)

        def is_over(stream: GroupStream) -> bool:
            if stream.is_caught_up and has_executor(leaving):
                topic.fill(200)  # rounds go on until it has ended
            return stream.is_caught_up and not has_executor(leaving)

        spark = build("decommission", master=cluster.address, conf=cluster.conf | DECOMMISSION)
        try:
            with GroupStream(
                spark,
                topic.name,
                bootstrap_servers=topic.bootstrap_servers,
                group_id=topic.group_id,
                auto_offset_reset="earliest",
                max_rows_per_round=200,
                rows_on_driver=0,
                finished=finished,
            ) as stream:
                stream.run(exactly_once(table), until=is_over)
                topic.fill(400)
                stream.run(exactly_once(table), until=lambda _: sum(topic.committed().values()) == topic.end())
        finally:
            spark.stop()
        end = topic.end()
        assert not lost
    places = Counter((row["partition"], row["offset"]) for row in rows_in(table))
    assert places.total() == end
    assert set(places.values()) == {1}


def has_executor(worker: Child) -> bool:
    """Return whether a worker has executors."""
    return bool(worker.descendants())
