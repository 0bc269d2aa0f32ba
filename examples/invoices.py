"""Consume, transform, produce, exactly once: each order gets one invoice, however often this program is killed.

`python invoices.py HOST:PORT NAME` works on a cluster until it is ended; without arguments it shows itself on a broker.
"""

import asyncio
import sys

from kohort import Admin, Consumer, Producer, TopicPartition, TransactionAbortable
from kohort.testing import EmbeddedBroker


async def write_invoices(address: str, name: str) -> None:
    async with (
        Producer(address, transactional_id=f"invoicing-{name}") as producer,
        Consumer(
            "orders",
            bootstrap_servers=address,
            group_id="invoicing",
            group_instance_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        while True:
            batches = await consumer.poll(timeout_ms=1000, max_records=100)
            if not batches:
                continue
            try:
                async with producer.transaction() as transaction:
                    for batch in batches:
                        for order in batch:
                            await producer.send(
                                "invoices", b"invoice for " + (order.value or b"nothing"), key=order.key
                            )
                    await transaction.send_offsets(consumer)
            except TransactionAbortable as error:
                print(f"aborted, and read again: {error.text}")
                consumer.seek_to_committed()


async def main(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("orders", partitions=3)
        await admin.create_topic("invoices", partitions=2)
        for number in range(1000):
            await producer.send("orders", b"order %d" % number, key=b"customer %d" % (number % 50))
    working = asyncio.create_task(write_invoices(address, "one"))
    seen: list[bytes | None] = []
    async with Consumer(
        bootstrap_servers=address, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as reader:
        reader.assign([TopicPartition("invoices", 0), TopicPartition("invoices", 1)])
        while len(seen) < 1000:
            seen += [record.value for batch in await reader.poll(timeout_ms=100) for record in batch]
            if working.done():
                await working
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    print(f"{len(seen)} invoices, {len(set(seen))} different ones")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(write_invoices(*sys.argv[1:]))
    else:
        with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
            asyncio.run(main(broker.bootstrap_servers))
