"""Clicks of each page, counted by two queries whose partitions are bound to their checkpoints."""

import tempfile

import polars

from kohort.spark import DeltaLakeTable, build, exactly_once
from kohort.sync import Admin, Producer
from kohort.testing import EmbeddedBroker

with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker, tempfile.TemporaryDirectory() as folder:
    address = broker.bootstrap_servers
    with Admin(address) as admin:
        admin.create_topic("clicks", partitions=4)

    spark = build("page counts", master="local[1]")
    table = DeltaLakeTable(f"{folder}/counts")

    def count(part: str) -> None:
        """Count what has arrived since the last run of a part; the counts until then are in its checkpoint."""
        clicks = (
            spark.readStream.format("kohort")
            .option("kafka.bootstrap.servers", address)
            .option("subscribe", "clicks")
            .option("group.id", "page-counts")
            .option("startingOffsets", "earliest")
            .option("boundPartitions", part)
            .load()
        )
        counts = clicks.groupBy(clicks["key"].cast("string").alias("page")).count()
        query = (
            counts.writeStream.outputMode("update")
            .foreachBatch(exactly_once(table, merge_on=["page"], order="count"))
            .option("checkpointLocation", f"{folder}/checkpoint-{part.replace('/', '-of-')}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    for run in ("first", "second"):
        with Producer(address) as producer:
            for number in range(300):
                producer.send("clicks", b"click", key=b"page %d" % (number % 6))
        for part in ("1/2", "2/2"):  # two jobs, on two machines or on one, at the same time or one after the other
            count(part)
        print(f"after the {run} run: {sorted(polars.read_delta(table.uri).rows())}")
    spark.stop()
