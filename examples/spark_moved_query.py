"""A Structured Streaming query that was moved from Spark's own source: it names the format `kohort` and its group."""

import tempfile

from kohort.spark import build
from kohort.sync import Admin, Producer
from kohort.testing import EmbeddedBroker

DELAYS = {"EWR": [11, 12], "LGA": [20, -25], "JFK": [33, -18]}

with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker, tempfile.TemporaryDirectory() as folder:
    address = broker.bootstrap_servers
    with Admin(address) as admin:
        admin.create_topic("delays", partitions=3)

    spark = build("delays", master="local[1]")

    def run_once() -> None:
        """Read the new records since the last run, and end."""
        delays = (
            spark.readStream.format("kohort")  # was: format("kafka")
            .option("group.id", "delays-to-parquet")  # new: the group that the query is a member of
            .option("kafka.bootstrap.servers", address)
            .option("subscribe", "delays")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 1000)
            .load()
            .selectExpr("cast(key AS string) AS origin", "cast(cast(value AS string) AS int) AS minutes")
        )
        query = (
            delays.writeStream.format("parquet")
            .option("path", f"{folder}/delays")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    for number in range(2):
        with Producer(address) as producer:
            for origin, minutes in DELAYS.items():
                producer.send("delays", str(minutes[number]).encode(), key=origin.encode())
        run_once()
        rows = spark.read.parquet(f"{folder}/delays").groupBy("origin").sum("minutes").orderBy("origin").collect()
        print(f"after run {number + 1}: {[tuple(row) for row in rows]}")
        with Admin(address) as admin:
            committed = sum(entry.offset for entry in admin.group_offsets("delays-to-parquet").values())
            members = len(admin.describe_groups(["delays-to-parquet"])["delays-to-parquet"].members)
        print(f"  the group has committed {committed} records and has {members} members")
    spark.stop()
