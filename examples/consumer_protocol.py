"""The consumer protocol: the broker resolves the expression (with kohort[fast]) and assigns; bob joins."""

import asyncio

from kohort import Admin, Consumer, Producer, SubscriptionPattern
from kohort.testing import EmbeddedBroker


def member(name: str, address: str) -> Consumer:
    return Consumer(
        SubscriptionPattern("orders-.*"),
        bootstrap_servers=address,
        group_id="billing",
        client_id=name,
        auto_offset_reset="earliest",
        group_protocol="consumer",
        group_remote_assignor="uniform",
    )


async def main(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("orders-eu", partitions=4)
        for number in range(400):
            await producer.send("orders-eu", b"order %d" % number, partition=number % 4)
        seen: list[bytes | None] = []

        async def read(*consumers: Consumer) -> None:
            for batches in await asyncio.gather(*(consumer.poll(timeout_ms=10) for consumer in consumers)):
                seen.extend(record.value for batch in batches for record in batch)

        async with member("alice", address) as alice:
            while len(alice.assignment()) < 4:
                await read(alice)
            print(f"alice has {len(alice.assignment())} partitions")
            async with member("bob", address) as bob:
                while len(bob.assignment()) < 2:
                    await read(alice, bob)
                print(f"alice has {len(alice.assignment())}, bob {len(bob.assignment())}")
                await admin.create_topic("orders-us", partitions=2)
                while len(alice.assignment()) + len(bob.assignment()) < 6:
                    await read(alice, bob)
                print(f"with orders-us, alice has {len(alice.assignment())}, bob {len(bob.assignment())}")
            while len(alice.assignment()) < 6 or len(seen) < 400:
                await read(alice)
        print(f"{len(seen)} orders were read, {len(set(seen))} different ones")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
