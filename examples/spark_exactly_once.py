"""Rows and offsets in one atomic step: the rows of a repeated round are in the table once."""

import tempfile
from typing import Any

import polars
from pyspark.sql import DataFrame

from kohort.spark import DeltaLakeTable, ExactlyOnce, GroupStream, build, exactly_once
from kohort.sync import Admin, Producer
from kohort.testing import EmbeddedBroker

with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker, tempfile.TemporaryDirectory() as folder:
    address = broker.bootstrap_servers
    with Admin(address) as admin:
        admin.create_topic("orders", partitions=3)
    with Producer(address) as producer:
        for number in range(90):
            producer.send("orders", b"order %d" % number, key=b"customer %d" % (number % 10))

    spark = build("orders", master="local[1]")
    table = DeltaLakeTable(f"{folder}/orders")

    class PowerCut(Exception):
        """Ends an application after the write to the table and before the commit of the group."""

    class Doomed(ExactlyOnce):
        def __call__(self, frame: Any, batch: Any) -> None:
            super().__call__(frame, batch)
            raise PowerCut

    def texts(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("cast(value AS string) AS text", "partition", "offset")

    settings: dict[str, Any] = {"bootstrap_servers": address, "group_id": "orders", "auto_offset_reset": "earliest"}
    try:
        with GroupStream(spark, "orders", max_rows_per_round=40, **settings) as stream:
            stream.run(Doomed(table, texts), timeout_s=60)
    except PowerCut:
        with Admin(address) as admin:
            committed = sum(entry.offset for entry in admin.group_offsets("orders").values())
        print(f"killed: {polars.read_delta(table.uri).height} orders in the table, {committed} committed in the group")

    with GroupStream(spark, "orders", max_rows_per_round=40, **settings) as stream:
        stream.run(exactly_once(table, texts), until=lambda stream: stream.is_caught_up, timeout_s=60)
    spark.stop()
    rows = polars.read_delta(table.uri)
    print(f"in the end: {rows.height} orders, {rows['text'].n_unique()} of them different")
