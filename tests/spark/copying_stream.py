"""A Spark application that copies a topic to another one exactly once, and is killed by the test that runs it.

    python -m tests.spark.copying_stream BOOTSTRAP SOURCE TARGET GROUP MASTER

It prints a line when it is given partitions, and one for each round.
"""

from __future__ import annotations

import logging
import os
import sys

from tests.spark.storing_stream import GroupReport

from kohort.spark import GroupStream, TransactionalTopic, build

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(bootstrap: str, source: str, target: str, group: str, master: str) -> None:
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

    def rows(frame):
        print("begins", flush=True)
        return frame.select("key", "value")

    topic = TransactionalTopic(
        target,
        rows,
        bootstrap_servers=bootstrap,
        transactional_id=group,
        rows_on_driver=0,
        batch_size=1,  # each record is a batch, so that there is time to kill a task that writes
    )
    with stream, topic:
        stream.run(topic)


if __name__ == "__main__":
    main(*sys.argv[1:])
