"""A Spark application that stores a topic into a table exactly once, and is killed by the test that runs it.

    python -m tests.spark.storing_stream BOOTSTRAP TOPIC GROUP KIND WHERE NAME

It prints a line when it is given partitions, and one for each round.
"""

from __future__ import annotations

import sys

from tests.spark.storing_job import open_table

from kohort.client.membership.user_callbacks import RebalanceListener
from kohort.spark import GroupStream, build, exactly_once


class GroupReport(RebalanceListener):
    """Says what the application owns."""

    async def on_partitions_assigned(self, partitions) -> None:
        if partitions:
            print("owns", flush=True)


def main(bootstrap: str, topic: str, group: str, kind: str, where: str, name: str) -> None:
    conf = {"spark.driver.memory": "600m"}
    spark = build(name, master="local[1]", conf=conf, java_options="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    spark.range(1).toArrow()
    store = exactly_once(open_table(kind, where, name), lambda frame: frame.select("partition", "offset"))
    stream = GroupStream(
        spark,
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=6000,
        heartbeat_interval_ms=300,
        max_rows_per_round=20,
        listener=GroupReport(),
        finished=lambda _, is_done: print("round" if is_done else "lost", flush=True),
    )
    with stream:
        stream.run(store)


if __name__ == "__main__":
    main(*sys.argv[1:])
