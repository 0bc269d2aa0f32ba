"""A service that writes one invoice for each order, exactly once, however often it is killed.

`python copies.py HOST:PORT NAME` works on a cluster until it is ended; without arguments it shows itself on a broker.
"""

import asyncio
import sys

from kohort import Admin, Consumer, OutputRecord, Producer, Record, TopicPartition
from kohort.testing import EmbeddedBroker


async def invoice(order: Record) -> OutputRecord:
    await asyncio.sleep(0)  # a call over the network
    return OutputRecord("invoices", b"invoice for " + (order.value or b"nothing"), key=order.key)


async def serve(address: str, name: str) -> None:
    async with Consumer(
        "orders",
        bootstrap_servers=address,
        group_id="invoicing",
        group_instance_id=name,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        await consumer.process(invoice, exactly_once=True)


async def main(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("orders", partitions=3)
        await admin.create_topic("invoices", partitions=2)
        for number in range(1000):
            await producer.send("orders", b"order %d" % number, key=b"customer %d" % (number % 50))
    serving = asyncio.create_task(serve(address, "one"))
    seen: list[bytes | None] = []
    async with Consumer(
        bootstrap_servers=address, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as reader:
        reader.assign([TopicPartition("invoices", 0), TopicPartition("invoices", 1)])
        while len(seen) < 1000:
            seen += [record.value for batch in await reader.poll(timeout_ms=100) for record in batch]
            if serving.done():
                await serving
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    print(f"{len(seen)} invoices, {len(set(seen))} different ones")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(serve(*sys.argv[1:]))
    else:
        with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
            asyncio.run(main(broker.bootstrap_servers))
