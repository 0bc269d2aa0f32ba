"""What it costs to write a round to another topic exactly once, beside the same round written at least once.

Each round of a `GroupStream` has 10,000 rows. Ours is a `TransactionalTopic`; at least once are our sink and Spark's
own, each followed by the group's commit. All three read the same records, each in a group of its own, in turns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result
from bench.spark_read import session
from bench.throughput import load
from kohort.sync import Admin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kohort.spark import GroupStream, Round
    from kohort.spark.group_stream import RoundFunction

ROWS = 10_000
SIZE = 100
PARTITIONS = 4
SOURCE, TARGET = "rounds-read", "rounds-written"
WARM_UP = 20
AT_MOST = Aim(1.3, of_ratio=True, at_most=True)


def by_sink(name: str, bootstrap: str) -> RoundFunction:
    """Return what writes a round by a Spark sink."""

    def write(frame: DataFrame, _: Round) -> None:
        rows = frame.select("key", "value").write.format(name).mode("append")
        rows.option("kafka.bootstrap.servers", bootstrap).option("topic", TARGET).save()

    return write


def round_ms(stream: GroupStream, function: RoundFunction) -> float:
    """Return how long the next round takes: to be found, written and committed."""
    done = stream.metrics.rounds
    start = time.perf_counter()
    stream.run(function, until=lambda each: each.metrics.rounds > done)
    return 1000 * (time.perf_counter() - start)


def topic_to_topic(quick: bool) -> Iterator[Outcome]:
    """Take one round of each kind in turn."""
    from kohort.spark import GroupStream, TransactionalTopic

    counted = 5 if quick else 40
    rounds = (3 if quick else WARM_UP) + counted
    spark = session()
    try:
        with ExitStack() as stack:
            broker = stack.enter_context(KohortBroker())
            load(broker, SOURCE, ROWS * (rounds + 2), SIZE, PARTITIONS)
            with Admin(broker.bootstrap) as admin:
                admin.create_topic(TARGET, PARTITIONS)
            topic = TransactionalTopic(TARGET, bootstrap_servers=broker.bootstrap, transactional_id="bench")
            kinds: dict[str, RoundFunction] = {
                "exactly once": stack.enter_context(topic),
                "kohort": by_sink("kohort", broker.bootstrap),
                "kafka": by_sink("kafka", broker.bootstrap),
            }
            streams = {
                kind: stack.enter_context(
                    GroupStream(
                        spark,
                        SOURCE,
                        bootstrap_servers=broker.bootstrap,
                        group_id=f"bench-{kind}",
                        auto_offset_reset="earliest",
                        max_rows_per_round=ROWS,
                    )
                )
                for kind in kinds
            }
            found: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(rounds):
                for kind, stream in streams.items():
                    found[kind].append(round_ms(stream, kinds[kind]))
            ours, our_sink, their_sink = (found[kind][-counted:] for kind in kinds)
            name = f"one round of {ROWS:,} rows to a topic, exactly once"
            yield Result(name, "ms", ours, our_sink, "at least once, kohort's sink", AT_MOST)
            yield Result(name, "ms", ours, their_sink, "at least once, Spark's Kafka sink", AT_MOST)
    finally:
        spark.stop()
