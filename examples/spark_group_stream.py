"""A PySpark application as a member of a group: each round of rows is committed once its function has returned."""

import csv
import io
from collections import Counter

from pyspark.sql import DataFrame

from kohort.spark import GroupStream, Round, build
from kohort.sync import Admin, Producer
from kohort.testing import EmbeddedBroker

FLIGHTS = """N14228,EWR,IAH,11
N24211,LGA,IAH,20
N619AA,JFK,MIA,33
N804JB,JFK,BQN,-18
N668DN,LGA,ATL,-25
N39463,EWR,ORD,12
"""

with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
    address = broker.bootstrap_servers
    with Admin(address) as admin:
        admin.create_topic("flights", partitions=3)
    with Producer(address) as producer:
        for tail, *rest in csv.reader(io.StringIO(FLIGHTS)):
            producer.send("flights", ",".join(rest).encode(), key=tail.encode())

    spark = build("delays", master="local[1]", conf={"spark.sql.shuffle.partitions": 1})
    delays: Counter[str] = Counter()

    def add(frame: DataFrame, _: Round) -> None:
        """Add up one round. A real job would write to a table and overwrite by key, because a round may be repeated."""
        rows = frame.selectExpr("split(cast(value AS string), ',') AS f")
        for row in rows.selectExpr("f[0] AS origin", "int(f[2]) AS delay").groupBy("origin").sum("delay").collect():
            delays[row["origin"]] += row["sum(delay)"]

    with GroupStream(
        spark, "flights", bootstrap_servers=address, group_id="delays", auto_offset_reset="earliest"
    ) as stream:
        metrics = stream.run(add, until=lambda stream: stream.is_caught_up, timeout_s=60)
    print(f"{metrics.offsets} flights, {metrics.lost_rounds} rounds lost to a rebalance")
    print(sorted(delays.items()))

    with Admin(address) as admin:
        committed = admin.group_offsets("delays")
        print(f"committed: {sum(entry.offset for entry in committed.values())}, on {len(committed)} partitions")
    spark.stop()
