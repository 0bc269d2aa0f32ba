"""A cooperative group: bob joins and leaves, and alice keeps reading from the partitions that she keeps."""

import asyncio

from kohort import Admin, Consumer, CooperativeStickyAssignor, Producer, RebalanceListener, TopicPartition
from kohort.testing import EmbeddedBroker


class PrintingListener(RebalanceListener):
    def __init__(self, name: str) -> None:
        self.name = name

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        if partitions:
            print(f"{self.name} gets {len(partitions)} partitions")

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        print(f"{self.name} gives up {len(partitions)} partitions")


def member(name: str, address: str) -> Consumer:
    return Consumer(
        "orders",
        bootstrap_servers=address,
        group_id="billing",
        auto_offset_reset="earliest",
        assignors=[CooperativeStickyAssignor()],
        listener=PrintingListener(name),
    )


async def main(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("orders", partitions=6)
        for number in range(600):
            await producer.send("orders", b"order %d" % number, partition=number % 6)
    seen: list[bytes | None] = []

    async def read(consumer: Consumer, count: int) -> None:
        for batch in await consumer.poll(timeout_ms=10, max_records=count):
            seen.extend(record.value for record in batch)

    async with member("alice", address) as alice:
        while len(seen) < 100:
            await read(alice, 10)
        async with member("bob", address) as bob:
            while len(bob.assignment()) < 3:
                await asyncio.gather(read(alice, 1), read(bob, 1))
            while len(seen) < 500:
                await read(alice, 100)
                await read(bob, 100)
        while len(alice.assignment()) < 6 or len(seen) < 600:
            await read(alice, 100)
    print(f"{len(seen)} orders were read, {len(set(seen))} different ones")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
