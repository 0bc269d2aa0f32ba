"""From a record's append to the call of the user's function with its rows, beside Spark's Kafka source.

A producer in a process of its own appends a batch of 100 rows when the last one was read, after a pause of random
length. Ours are `GroupStream.run` in Arrow, and `exactly_once` into a Delta table, which counts up to the group's
commit; Spark's is `foreachBatch`, which gets the rows in Arrow as well. Each reads a topic of its own, in turns.

`python -m bench.round_latency BOOTSTRAP TOPIC BATCHES` is the producer: it prints when each batch was acknowledged.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result
from bench.spark_read import CONNECTOR, session
from kohort import Producer
from kohort.sync import Admin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100
SIZE = 100
WARM_UP = 30
"""Batches of a turn before the first that counts."""
AT_MOST = Aim(10, of_ratio=False, at_most=True)


class Batches:
    """The producer's process; the value of each row begins with its batch's number."""

    def __init__(self, bootstrap: str, topic: str, count: int) -> None:
        command = [sys.executable, "-m", "bench.round_latency", bootstrap, topic, str(count)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._left = count
        self._reached: dict[int, float] = {}

    @property
    def are_read(self) -> bool:
        """Whether the last batch has reached its reader."""
        return self._left == 0

    def next(self) -> None:
        """Have the next batch appended after a pause."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def reached(self, numbers: Iterable[int]) -> None:
        """Note the time at which batches are with their reader."""
        now = time.perf_counter()
        for each in set(numbers) - self._reached.keys():
            self._reached[each] = now
            self._left -= 1
            if self._left:
                self.next()

    def latencies_ms(self) -> list[float]:
        """Return from the append of each batch that counts to when it reached its reader."""
        shown, _ = self._process.communicate(timeout=60)
        appended = map(float, shown.split())
        return [1000 * (self._reached[each] - at) for each, at in enumerate(appended) if each >= WARM_UP]


def numbers_of(values: Any) -> set[int]:
    """Return the numbers of the batches that a column of values has rows of."""
    return {int(each[:8]) for each in values.to_pylist()}


def in_arrow(spark: SparkSession, bootstrap: str, topic: str, batches: Batches, _: Path) -> None:
    """Read by a `GroupStream` whose function takes Arrow."""

    def note(rows: Any, _: object) -> None:
        batches.reached(numbers_of(rows["value"]))

    run(spark, bootstrap, topic, batches, note, rows="arrow")


def into_delta(spark: SparkSession, bootstrap: str, topic: str, batches: Batches, folder: Path) -> None:
    """Read by a `GroupStream` whose rows a Delta table stores."""
    from kohort.spark import exactly_once
    from kohort.spark.tables import DeltaLakeTable

    def finished(done: Any, is_committed: bool) -> None:
        assert is_committed
        batches.reached(at // ROWS for each in done.ranges for at in range(each.start, each.stop))

    store = exactly_once(DeltaLakeTable(str(folder / topic)))
    run(spark, bootstrap, topic, batches, store, finished=finished)


def run(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    batches: Batches,
    function: Any,
    *,
    rows: Any = "spark",
    **settings: Any,
) -> None:
    """Read a topic until the last batch was found."""
    from kohort.spark import GroupStream

    stream = GroupStream(
        spark, topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", **settings
    )
    with stream:
        stream.run(lambda *_: None, until=lambda each: bool(each.owned))
        batches.next()
        stream.run(function, rows=rows, until=lambda _: batches.are_read)


def by_connector(spark: SparkSession, bootstrap: str, topic: str, batches: Batches, folder: Path) -> None:
    """Read by Spark's Kafka source, and take the rows in Arrow."""

    def note(frame: Any, _: int) -> None:
        batches.reached(numbers_of(frame.select("value").toArrow()["value"]))

    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    written = source.option("startingOffsets", "earliest").load().writeStream.foreachBatch(note)
    query = written.option("checkpointLocation", str(folder / f"{topic}-checkpoint")).start()
    try:
        batches.next()
        while not batches.are_read:
            query.awaitTermination(1)
    finally:
        query.stop()


KINDS = {"arrow": in_arrow, "delta": into_delta, "connector": by_connector}


def round_latency(quick: bool) -> Iterator[Outcome]:
    """Take turns, each with a topic of its own."""
    turns, count = (1, WARM_UP + 10) if quick else (3, WARM_UP + 100)
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    spark = session()
    with ExitStack() as stack:
        stack.callback(spark.stop)
        broker = stack.enter_context(KohortBroker())
        admin = stack.enter_context(Admin(broker.bootstrap))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-rounds.")))
        for turn in range(turns):
            for kind, read in KINDS.items():
                topic = f"latency-{kind}-{turn}"
                admin.create_topic(topic, 1)
                batches = Batches(broker.bootstrap, topic, count)
                read(spark, broker.bootstrap, topic, batches, folder)
                found[kind] += batches.latencies_ms()
    yield Result(
        f"{ROWS} rows from append to function, Arrow", "ms", found["arrow"], found["connector"], CONNECTOR, AT_MOST
    )
    yield Result(
        f"{ROWS} rows from append into Delta",
        "ms",
        found["delta"],
        found["connector"],
        CONNECTOR,
        AT_MOST,
        "ours until the table and the group have it; the connector's rows are in the function, and nowhere else",
    )


async def produce(bootstrap: str, topic: str, count: int) -> None:
    """Append a batch for each line of the input, after a pause, and print when it was acknowledged."""
    chance = random.Random(7)
    async with Producer(bootstrap) as producer:
        for number in range(count):
            await asyncio.to_thread(sys.stdin.readline)
            await asyncio.sleep(chance.uniform(0.05, 0.15))
            value = f"{number:08}".encode().ljust(SIZE, b"x")
            for _ in range(ROWS):
                await producer.send(topic, value, partition=0)
            await producer.flush()
            print(time.perf_counter(), flush=True)


def main(bootstrap: str, topic: str, count: str) -> None:
    """Be the producer."""
    asyncio.run(produce(bootstrap, topic, int(count)))


if __name__ == "__main__":
    main(*sys.argv[1:])
