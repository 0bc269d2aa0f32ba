"""A job with a deadline: it ends when it has read what is there, or its time is over; the next run continues."""

import asyncio
import time
from collections.abc import Callable

from kohort import Admin, Batch, Consumer, Producer
from kohort.testing import EmbeddedBroker


async def run(address: str, work: Callable[[bytes], None], limit_s: float) -> bool:
    """Return whether everything was read that was there when the job began; False where the time was over before."""
    deadline_s = time.monotonic() + limit_s
    async with Consumer(
        "invoices",
        bootstrap_servers=address,
        group_id="nightly",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=100,
    ) as consumer:
        batches: list[Batch] = []
        while not consumer.assignment():  # the group assigns partitions while the program polls
            batches = await consumer.poll(timeout_ms=100)
        ends = await consumer.end_offsets(consumer.assignment())
        while True:
            for batch in batches:
                for record in batch:
                    work(record.value or b"")
            await consumer.commit()
            mine = ends.keys() & consumer.assignment()  # others belong to a member that has joined meanwhile
            if all([await consumer.position(partition) >= ends[partition] for partition in mine]):
                return True
            if time.monotonic() >= deadline_s:
                return False
            batches = await consumer.poll(timeout_ms=1000)


async def main(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("invoices", partitions=1)
        for number in range(250):
            await producer.send("invoices", b"invoice %d" % number)
    booked: list[bytes] = []
    for limit_s in (0.0, 60.0):
        is_complete = await run(address, booked.append, limit_s)
        print("everything was read" if is_complete else "the time is over: the next run continues")
    print(f"{len(booked)} invoices, {len(set(booked))} different ones")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
