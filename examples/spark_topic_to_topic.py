"""Topic to topic exactly once: records and the offsets they were made from are one transaction of all tasks."""

from typing import Any

from pyspark.sql import DataFrame

from kohort.spark import GroupStream, TransactionalTopic, build
from kohort.sync import Admin, Consumer, Producer
from kohort.testing import EmbeddedBroker

with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
    address = broker.bootstrap_servers
    with Admin(address) as admin:
        admin.create_topic("orders", partitions=3)
        admin.create_topic("invoices", partitions=4)
    with Producer(address) as producer:
        for number in range(90):
            producer.send("orders", b"order %d" % number, key=b"customer %d" % (number % 10))

    spark = build("invoices", master="local[1]")
    begun: list[str] = []

    def invoices(frame: DataFrame) -> DataFrame:
        """Return the rows to write: value and, if wanted, key, headers and partition. The second round fails."""
        begun.append("round")
        value = "concat('invoice for ', cast(value AS string))"
        if len(begun) == 2:
            value = f"if(offset % 2 = 0, {value}, raise_error('power cut'))"
        return frame.selectExpr("key", f"{value} AS value")

    settings: dict[str, Any] = {"bootstrap_servers": address, "group_id": "invoicing", "auto_offset_reset": "earliest"}
    with TransactionalTopic("invoices", invoices, bootstrap_servers=address, transactional_id="invoicing-1") as topic:
        try:
            with GroupStream(spark, "orders", max_rows_per_round=40, **settings) as stream:
                stream.run(topic, timeout_s=60)
        except Exception as error:
            print(f"round {len(begun)} failed: {'power cut' in str(error)}")
        with GroupStream(spark, "orders", max_rows_per_round=40, **settings) as stream:
            stream.run(topic, until=lambda stream: stream.is_caught_up, timeout_s=60)
    spark.stop()

    found: list[bytes | None] = []
    with Consumer(
        "invoices",
        bootstrap_servers=address,
        group_id="readers",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        while len(found) < 90:
            found += [record.value for batch in consumer.poll(timeout_ms=1000) for record in batch]
    print(f"{len(found)} invoices, {len(set(found))} of them different")
