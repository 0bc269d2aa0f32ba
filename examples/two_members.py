"""Two members of one group share a topic; one leaves, and the other continues at its committed offsets."""

import asyncio

from kohort import Admin, Consumer, ConsumerSettings, Producer
from kohort.testing import EmbeddedBroker


async def main(address: str) -> None:
    seen: list[bytes | None] = []
    settings: ConsumerSettings = {"bootstrap_servers": address, "group_id": "billing", "auto_offset_reset": "earliest"}
    async with Admin(address) as admin, Producer(address) as producer, Consumer("orders", **settings) as bob:
        await admin.create_topic("orders", partitions=4)
        async with Consumer("orders", **settings) as alice:
            while not len(alice.assignment()) == len(bob.assignment()) == 2:
                await asyncio.gather(alice.poll(timeout_ms=10), bob.poll(timeout_ms=10))
            print("alice and bob have two partitions each")
            for number in range(500):
                await producer.send("orders", b"order %d" % number, key=b"customer %d" % (number % 50))
            while len(seen) < 500:
                for batch in await alice.poll(timeout_ms=10) + await bob.poll(timeout_ms=10):
                    seen += [record.value for record in batch]
        print(f"alice leaves, after {len(seen)} orders")
        for number in range(500, 1000):
            await producer.send("orders", b"order %d" % number, key=b"customer %d" % (number % 50))
        while len(seen) < 1000:
            seen += [record.value for batch in await bob.poll(timeout_ms=100) for record in batch]
        print(f"bob has {len(bob.assignment())} partitions now")
    print(f"{len(seen)} orders were read, {len(set(seen))} different ones")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
