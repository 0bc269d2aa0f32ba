"""A handler for each record: `Consumer.process` beside what programs of aiokafka write by hand.

One partition, 1,000 keys. The peer polls up to 1,000 records, handles them by `asyncio.gather`, and commits; the next
poll waits for the slowest of them, and the order of keys is lost. Without work: the time of this process that a record
takes from fetch to finish, beside the peer's loop that awaits the handler for each record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

from interop.kohort_broker import KohortBroker
from interop.unavailable import Unavailable

from bench.result import Aim, Outcome, Result, interleave
from kohort import Consumer, Producer
from kohort.sync import Admin

TOPIC, KEYS, WORK_S = "work", 1_000, 0.02
Handler = Callable[[Any], Awaitable[None]]


class Work:
    """A handler that ends the measurement at the last record."""

    def __init__(self, records: int, seconds: float) -> None:
        self.left, self._seconds, self.done = records, seconds, asyncio.Event()

    async def __call__(self, _: object) -> None:
        if self._seconds:
            await asyncio.sleep(self._seconds)
        self.left -= 1
        if not self.left:
            self.done.set()


async def ours(bootstrap: str, group: str, work: Work) -> None:
    """Handle all records by `process`."""
    consumer = Consumer(TOPIC, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest")
    async with consumer, asyncio.TaskGroup() as tasks:
        tasks.create_task(consumer.process(work.__call__))
        await work.done.wait()
        await consumer.stop()


async def theirs(bootstrap: str, group: str, work: Work) -> None:
    """Handle all records by aiokafka: at once where they take time, else one after another."""
    try:
        from aiokafka import AIOKafkaConsumer
    except ImportError as error:
        raise Unavailable("aiokafka is not installed") from error
    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        while not work.done.is_set():
            for records in (await consumer.getmany(timeout_ms=1_000, max_records=KEYS)).values():
                if work._seconds:
                    await asyncio.gather(*map(work, records))
                else:
                    for record in records:
                        await work(record)
            await consumer.commit()
    finally:
        await consumer.stop()


def services(quick: bool) -> Iterator[Outcome]:
    """Take turns, each in a group of its own."""
    records, rounds = (5_000, 1) if quick else (60_000, 3)
    with KohortBroker() as broker:
        with Admin(broker.bootstrap) as admin:
            admin.create_topic(TOPIC, 1)
        asyncio.run(filled(broker.bootstrap, records))
        turns = iter(range(1_000))

        def rate(read: Callable[[str, str, Work], Awaitable[None]]) -> float:
            return records / measured(read, broker.bootstrap, f"g{next(turns)}", records, WORK_S)[0]

        def cost(read: Callable[[str, str, Work], Awaitable[None]]) -> float:
            return 1e6 * measured(read, broker.bootstrap, f"g{next(turns)}", records, 0)[1] / records

        found = interleave(lambda: rate(ours), lambda: rate(theirs), rounds)
        note = "1,000 keys of one partition, 1,000 at once; one at a time it would be 50"
        peer = "aiokafka, `gather` of each poll, without order"
        yield Result("records handled, 20 ms each", "records/s", *found, peer, Aim(20_000, of_ratio=False), note)
        found = interleave(lambda: cost(ours), lambda: cost(theirs), rounds)
        at_most = Aim(15, of_ratio=False, at_most=True)
        yield Result("time of a record without work", "µs", *found, "aiokafka, one after another", at_most, "of CPU")


def measured(
    read: Callable[[str, str, Work], Awaitable[None]], bootstrap: str, group: str, records: int, seconds: float
) -> tuple[float, float]:
    """Return how long it took to handle all records, by wall and by this process's CPU, in seconds."""

    async def run() -> tuple[float, float]:
        work = Work(records, seconds)
        began = time.perf_counter(), time.process_time()
        with suppress(asyncio.CancelledError):
            await read(bootstrap, group, work)
        return time.perf_counter() - began[0], time.process_time() - began[1]

    return asyncio.run(run())


async def filled(bootstrap: str, records: int) -> None:
    """Write the records."""
    async with Producer(bootstrap) as producer:
        for number in range(records):
            await producer.send(TOPIC, b"x" * 100, key=b"%d" % (number % KEYS))
