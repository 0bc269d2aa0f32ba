"""A Spark application that copies a topic to another one exactly once, and is killed by the test that runs it.

    python -m tests.spark.copying_stream BOOTSTRAP SOURCE TARGET GROUP MASTER [CHECKPOINT]

It prints a line when it is given partitions, and one for each round. With a checkpoint it is a streaming query, which
writes in `foreachBatch`; then the first line means that the query runs.
"""

from __future__ import annotations

import logging
import os
import sys

from tests.spark.storing_stream import GroupReport

from kohort.spark import GroupStream, TransactionalTopic, build, register

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(bootstrap: str, source: str, target: str, group: str, master: str, checkpoint: str = "") -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(asctime)s %(message)s")
    conf = {
        "spark.driver.memory": "600m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.cores": 1,
        "spark.executor.memory": "500m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    spark = build(group, master=master, conf=conf, java_options=SHORT_LIVED)
    spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id bigint").groupBy("id").count().collect()

    def rows(frame):
        print("begins", flush=True)
        return frame.select("key", "value")

    topic = TransactionalTopic(
        target,
        rows,
        bootstrap_servers=bootstrap,
        transactional_id=group,
        group=f"{group}-written" if checkpoint else None,
        rows_on_driver=0,
        batch_size=1,  # each record is a batch, so that there is time to kill a task that writes
    )
    with topic:
        if checkpoint:
            run_query(spark, topic, bootstrap, source, group, checkpoint)
        else:
            run_rounds(spark, topic, bootstrap, source, group)


def run_rounds(spark, topic: TransactionalTopic, bootstrap: str, source: str, group: str) -> None:
    stream = GroupStream(
        spark,
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=6000,
        heartbeat_interval_ms=300,
        max_rows_per_round=600,
        rows_on_driver=0,
        listener=GroupReport(),
        finished=lambda _, is_done: print("round" if is_done else "lost", flush=True),
    )
    with stream:
        stream.run(topic)


def run_query(spark, topic: TransactionalTopic, bootstrap: str, source: str, group: str, checkpoint: str) -> None:
    register(spark)
    rows = spark.readStream.format("kohort").options(
        **{
            "kafka.bootstrap.servers": bootstrap,
            "kafka.session.timeout.ms": "6000",
            "kafka.heartbeat.interval.ms": "300",
            "kafka.isolation.level": "read_committed",
            "subscribe": source,
            "group.id": group,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "600",
        }
    )
    query = rows.load().writeStream.foreachBatch(topic).option("checkpointLocation", checkpoint).start()
    print("owns", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
