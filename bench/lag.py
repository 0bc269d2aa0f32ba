"""How wrong the lag in seconds is, beside the producer's own clock: two hours back, and live.

A producer writes records with timestamps of its clock over two hours (CreateTime), or at once to a topic that the
broker stamps (LogAppendTime). A group that has committed at one of them is as far behind as that clock is later than
the next record. Between them are aborted transactions and their markers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result
from kohort.client import Admin, Producer
from kohort.model.ids import TopicPartition

BACK_MS = 7_200_000
AIM = Aim(1000, of_ratio=False, at_most=True)
KINDS = {"CreateTime": "two hours back", "LogAppendTime": "live"}


def lag(quick: bool) -> Iterator[Outcome]:
    """Measure on our broker, and on Apache Kafka."""
    for broker_kind in (KohortBroker, ApacheKafka):
        with broker_kind() as broker:
            for kind, how in KINDS.items():
                errors, longest_s = asyncio.run(errors_ms(broker.bootstrap, kind, 20 if quick else 200))
                yield Result(
                    f"lag in seconds, {how}, {broker_kind.name}",
                    "ms",
                    errors,
                    [],
                    "the producer's clock",
                    AIM,
                    f"{kind}, largest of {len(errors)} errors {max(errors):.0f} ms, longest lag {longest_s:.0f} s",
                )


async def errors_ms(bootstrap: str, kind: str, count: int) -> tuple[list[float], float]:
    """Return how wrong the lag at each offset is, and the longest lag."""
    only = TopicPartition(f"lag-{kind}", 0)
    written: list[tuple[int, float]] = []
    async with Admin(bootstrap) as admin:
        await admin.create_topic(only.topic, 1, configs={"message.timestamp.type": kind})
        async with (
            Producer(bootstrap, linger_ms=0) as plain,
            Producer(bootstrap, linger_ms=0, transactional_id=only.topic) as transactional,
        ):
            begin_ms = time.time() * 1000 - BACK_MS
            for at in range(count):
                clock_ms = begin_ms + at * BACK_MS / count if kind == "CreateTime" else time.time() * 1000
                if at % 4 == 3:
                    async with transactional.transaction() as transaction:
                        await (await transactional.send(only.topic, b"aborted", partition=0))
                        await transaction.abort()
                delivery = await plain.send(only.topic, b"v", partition=0, timestamp_ms=int(clock_ms))
                written.append(((await delivery).offset, clock_ms))
        errors, longest_s = [], 0.0
        for offset, clock_ms in written:
            await admin.reset_offsets("lag", {only: offset})
            found = (await admin.lag("lag", [only], isolation_level="read_committed"))[only]
            true_s = (time.time() * 1000 - clock_ms) / 1000
            assert found.seconds is not None, found.reason
            errors.append(abs(found.seconds - true_s) * 1000)
            longest_s = max(longest_s, true_s)
    return errors, longest_s
