"""Two members of one group share a topic; one leaves in the middle, and the other goes on where it stopped."""

import asyncio

from kohort import Admin, Consumer, Producer
from kohort.broker.embedded import EmbeddedBroker


async def read(name: str, address: str, until: int, seen: list[int]) -> None:
    async with Consumer("orders", group_id="billing", bootstrap_servers=address, auto_offset_reset="earliest") as me:
        while len(seen) < until:
            for batch in await me.poll(timeout_ms=100, max_records=50):
                seen.extend(int(record.value) for record in batch)
        print(f"{name} owned partitions {sorted(p.partition for p in me.assignment())} and leaves at {until}")


async def main(address: str) -> None:
    async with Admin(bootstrap_servers=address) as admin, Producer(bootstrap_servers=address) as producer:
        await admin.create_topic("orders", partitions=4)
        for number in range(1000):
            await producer.send("orders", str(number).encode(), partition=number % 4)

    seen: list[int] = []
    await asyncio.gather(read("alice", address, 500, seen), read("bob", address, 1000, seen))
    print(f"{len(seen)} orders read, {len(set(seen))} different ones")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
