"""A partition with state moves to another member only when the standby copy of that member has caught up."""

import asyncio

from kohort import Admin, Consumer, TopicPartition
from kohort.testing import EmbeddedBroker


async def main(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topic("orders", partitions=2)

    def member() -> Consumer:
        return Consumer(
            "orders",
            bootstrap_servers=address,
            group_id="totals",
            group_protocol="consumer",
            group_remote_assignor="standby",
            acceptable_recovery_lag=100,
        )

    async with member() as alice:
        while len(alice.assignment()) < 2:
            await alice.poll(timeout_ms=10)
        bob = member()
        # Bob has begun to copy the state of both partitions; a real program reports what it sees.
        copies = {TopicPartition("orders", 0): 50_000, TopicPartition("orders", 1): 50_000}
        bob.report_standby_lag(copies)
        async with bob:
            await asyncio.gather(alice.poll(timeout_ms=500), bob.poll(timeout_ms=500))
            print(f"far behind: alice has {len(alice.assignment())}, bob has {len(bob.assignment())}")
            bob.report_standby_lag({**copies, TopicPartition("orders", 1): 0})
            while not bob.assignment():
                await asyncio.gather(alice.poll(timeout_ms=10), bob.poll(timeout_ms=10))
            print("caught up: alice has", *alice.assignment(), "and bob has", *bob.assignment())


if __name__ == "__main__":
    with EmbeddedBroker(group_consumer_assignors="uniform,standby") as broker:
        asyncio.run(main(broker.bootstrap_servers))
