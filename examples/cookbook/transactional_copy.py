"""A transactional copy: records and the offsets that they come from are written together, once each."""

import asyncio

from kohort import Admin, Consumer, Producer, TopicPartition, TransactionAbortable
from kohort.testing import EmbeddedBroker


def invoice(order: bytes) -> bytes:
    return b"invoice for " + order


async def copy(address: str, name: str, patience_ms: int = 500) -> int:
    """Write an invoice for each order until none arrives for so long; return how many. `name` is this process's own."""
    count = 0
    async with (
        # A copier that takes over a name ends the transaction that the one before has left open.
        Producer(address, transactional_id=f"invoicing-{name}") as producer,
        Consumer(
            "orders",
            bootstrap_servers=address,
            group_id="invoicing",
            group_instance_id=name,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,
        ) as consumer,
    ):
        while True:
            batches = await consumer.poll(timeout_ms=patience_ms, max_records=100)
            if not batches:
                if consumer.assignment():
                    return count
                continue  # the group has not assigned a partition yet
            try:
                async with producer.transaction() as transaction:
                    for batch in batches:
                        for order in batch:
                            await producer.send("invoices", invoice(order.value or b""), key=order.key)
                    await transaction.send_offsets(consumer)
                count += sum(len(batch) for batch in batches)
            except TransactionAbortable as error:
                print(f"aborted, and read again: {error}")
                consumer.seek_to_committed()


async def read(address: str, partition: TopicPartition) -> list[bytes]:
    """Return the committed records of a partition."""
    seen: list[bytes] = []
    async with Consumer(
        bootstrap_servers=address, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            seen += [record.value or b"" for batch in await consumer.poll(timeout_ms=100) for record in batch]
    return seen


async def main(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("orders", partitions=1)
        await admin.create_topic("invoices", partitions=1)
        for number in range(500):
            await producer.send("orders", b"order %d" % number)
    # Three copiers in turn; the first two are ended somewhere within their work, as by a deploy.
    for time_s in (0.02, 0.05):
        try:
            async with asyncio.timeout(time_s):
                await copy(address, "one")
        except TimeoutError:
            print("a copier was ended")
    await copy(address, "one")
    invoices = await read(address, TopicPartition("invoices", 0))
    print(f"{len(invoices)} invoices, {len(set(invoices))} different ones")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
