"""A member by `GroupStream`: a PySpark application that reports each round as the others report a poll.

`master` says where its executors are, `rows_on_driver` how large a round is that it reads itself.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from interop.members.report import Options, Report, options
from kohort import CooperativeStickyAssignor, RangeAssignor
from kohort.assign import Assignor
from kohort.client.decode.arrow_decoder import warm
from kohort.client.membership.user_callbacks import RebalanceListener
from kohort.model.assignment import Partitions
from kohort.spark import GroupStream, Round, build

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ASSIGNORS: dict[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ROWS_A_ROUND = 400


class Tenures(RebalanceListener):
    """Reports what the application owns after each change."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.owned: set[int] = set()

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        """Report more partitions."""
        self.owned.update(each.partition for each in partitions)
        self.report.owns(self.owned, "assigned")

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        """Report fewer partitions; the running round has been committed by now."""
        self.owned.difference_update(each.partition for each in partitions)
        self.report.owns(self.owned, "revoked")

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        """Report partitions that others own by now."""
        self.owned.difference_update(each.partition for each in partitions)
        self.report.owns(self.owned, "lost")


def session(chosen: Options) -> SparkSession:
    """Start Spark, and run a first job, which is slow, before any group waits for it."""
    master = chosen.more.get("master", "local[1]")
    conf: dict[str, str | int | bool] = {
        "spark.driver.memory": "600m",
        "spark.sql.adaptive.enabled": False,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Two applications share a cluster: each takes its share, and leaves the rest to the other.
        "spark.cores.max": chosen.more.get("cores", "1"),
        "spark.executor.cores": 1,
        "spark.executor.memory": "500m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    spark = build(f"{chosen.group}", master=master, conf=conf, java_options=SHORT_LIVED)
    cores = spark.sparkContext.defaultParallelism
    spark.range(0, cores, 1, cores).mapInArrow(warmed, "id bigint").groupBy("id").count().collect()
    return spark


def warmed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compile the decoder in an executor's Python."""
    warm()
    yield from batches


def rows(frame: DataFrame) -> list[tuple[int, int, str, str]]:
    """Return a round's rows as the other members report them."""
    wanted = frame.selectExpr("partition", "offset", "cast(key AS string) AS key", "cast(value AS string) AS value")
    return [tuple(row) for row in wanted.collect()]


def settings(chosen: Options) -> dict[str, Any]:
    """Return how the stream takes part in its group."""
    if chosen.is_native:
        return {"protocol": "consumer", "assignor": chosen.remote_assignor}
    timing = {"session_timeout_ms": chosen.session_ms, "heartbeat_interval_ms": chosen.heartbeat_ms}
    return timing | ({"assignors": tuple(ASSIGNORS[name]() for name in chosen.assignors)} if chosen.assignors else {})


def run(spark: SparkSession, chosen: Options, report: Report) -> None:
    """Hand over rounds until asked to leave or to turn."""

    def finished(done: Round, is_committed: bool) -> None:
        if is_committed:
            report.committed({place.partition: offset for place, offset in done.next_offsets.items()})
        else:
            report.refused(f"round {done.number} of generation {done.generation}")

    stream = GroupStream(
        spark,
        chosen.topic,
        bootstrap_servers=chosen.bootstrap,
        group_id=chosen.group,
        group_instance_id=chosen.instance,
        client_id="group_stream",
        auto_offset_reset="earliest",
        max_rows_per_round=ROWS_A_ROUND,
        rows_on_driver=int(chosen.more.get("rows_on_driver", "50000")),
        listener=Tenures(report),
        finished=finished,
        **settings(chosen),
    )
    with stream:
        stream.run(lambda frame, _: report.read(rows(frame)), until=lambda _: not report.is_reading)
        report.closing()


def main() -> None:
    """Take part until asked to leave."""
    logging.basicConfig(level=logging.INFO)  # on stderr, for the message of a failing test
    chosen, report = options(), Report()
    spark = session(chosen)
    for life in report.lives(chosen):
        run(spark, life, report)
    spark.stop()


if __name__ == "__main__":
    main()
