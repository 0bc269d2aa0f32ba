"""Changes of a database, as Debezium reports them: all of them in bronze, rows in silver, their history in gold."""

import json
import tempfile
from typing import Any

import polars

from kohort.spark import DeltaLakeTable, GroupStream, build, exactly_once
from kohort.sync import Admin, Producer
from kohort.testing import EmbeddedBroker

ROW = "id BIGINT, name STRING"
CHANGES = [  # the operation, the row, and when
    ("r", {"id": 1, "name": "Ada"}, 10),
    ("c", {"id": 2, "name": "Bea"}, 20),
    ("u", {"id": 1, "name": "Ada L."}, 30),
    ("d", {"id": 2, "name": "Bea"}, 40),
]

with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker, tempfile.TemporaryDirectory() as folder:
    address = broker.bootstrap_servers
    with Admin(address) as admin:
        admin.create_topic("customers", partitions=3)
    with Producer(address) as producer:
        for op, row, ts_ms in CHANGES:
            key = json.dumps({"id": row["id"]}).encode()
            states = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
            producer.send("customers", json.dumps({**states, "op": op, "ts_ms": ts_ms}).encode(), key=key)
            if op == "d":
                producer.send("customers", None, key=key)  # the tombstone after it

    spark = build("customers", master="local[1]")
    bronze, silver, gold = (DeltaLakeTable(f"{folder}/{name}") for name in ("bronze", "silver", "gold"))
    debezium: dict[str, Any] = {"merge_on": ["id"], "envelope": "debezium", "schema": ROW}
    stores = {
        "bronze": exactly_once(bronze),
        "silver": exactly_once(silver, **debezium),
        "gold": exactly_once(gold, **debezium, order="__ts_ms", history=True),
    }
    for name, store in stores.items():  # here one after the other; else a job for each
        with GroupStream(spark, "customers", bootstrap_servers=address, group_id=name) as stream:
            stream.run(store, until=lambda stream: stream.is_caught_up, timeout_s=60)
    spark.stop()

    print(polars.read_delta(bronze.uri).height, "records in bronze")
    print(polars.read_delta(silver.uri).rows())
    for version in sorted(polars.read_delta(gold.uri).select("id", "name", "valid_from", "valid_to").rows()):
        print(version)
