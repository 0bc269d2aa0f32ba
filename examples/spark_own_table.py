"""A table of one's own for `exactly_once`: rows and offsets in one transaction of SQLite."""

import sqlite3
import tempfile
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame

from kohort import TopicPartition
from kohort.spark import GroupStream, OffsetStep, Position, build, check_steps, exactly_once
from kohort.sync import Admin, Producer
from kohort.testing import EmbeddedBroker

Positions = dict[TopicPartition, Position]


class SqliteTable:
    """Two methods make a table: what it holds, and rows with their offsets, all or nothing."""

    def __init__(self, file: str) -> None:
        self.file = file
        with self.connected() as database:
            database.execute("CREATE TABLE IF NOT EXISTS orders (text)")
            database.execute(
                "CREATE TABLE IF NOT EXISTS offsets (grp, topic, number, at, id, PRIMARY KEY (grp, topic, number))"
            )

    def connected(self) -> sqlite3.Connection:
        """Return a connection whose `with` block is one transaction."""
        return sqlite3.connect(self.file, timeout=60)

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """Return how far the table has the rows of these partitions."""
        with self.connected() as database:
            return self.found(database, group, partitions)

    def found(self, database: sqlite3.Connection, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        rows = database.execute("SELECT topic, number, at, id FROM offsets WHERE grp = ?", [group])
        known = {TopicPartition(topic, number): Position(at, topic_id) for topic, number, at, topic_id in rows}
        return {each: known[each] for each in partitions if each in known}

    def append(self, frame: DataFrame, group: str, steps: Mapping[TopicPartition, OffsetStep]) -> None:
        """Add rows and move the offsets; `check_steps` raises Fenced where another member was faster."""
        rows = [(row.text,) for row in frame.collect()]
        with self.connected() as database:
            database.execute("BEGIN IMMEDIATE")
            check_steps("orders", group, self.found(database, group, steps), steps)
            database.executemany("INSERT INTO orders VALUES (?)", rows)
            database.executemany(
                "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?, ?, ?)",
                [(group, *each, *step.stop) for each, step in steps.items()],
            )


with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker, tempfile.TemporaryDirectory() as folder:
    address = broker.bootstrap_servers
    with Admin(address) as admin:
        admin.create_topic("orders", partitions=3)
    with Producer(address) as producer:
        for number in range(90):
            producer.send("orders", b"order %d" % number)

    spark = build("orders", master="local[1]")
    table = SqliteTable(f"{folder}/orders.db")
    store = exactly_once(table, lambda frame: frame.selectExpr("cast(value AS string) AS text"))
    with GroupStream(spark, "orders", bootstrap_servers=address, group_id="g", auto_offset_reset="earliest") as stream:
        stream.run(store, until=lambda stream: stream.is_caught_up, timeout_s=60)
    spark.stop()
    with table.connected() as database:
        print(*database.execute("SELECT count(*), count(DISTINCT text) FROM orders").fetchone())
