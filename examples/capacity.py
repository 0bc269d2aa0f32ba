"""Shares by capacity: a member with three times the weight gets three times the partitions."""

import asyncio

from kohort import Admin, CapacityAssignor, Consumer
from kohort.testing import EmbeddedBroker


async def main(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topic("orders", partitions=8)

    def member(cores: float) -> Consumer:
        return Consumer("orders", bootstrap_servers=address, group_id="billing", assignors=[CapacityAssignor(cores)])

    async with member(cores=2) as small, member(cores=6) as large:
        while len(small.assignment()) + len(large.assignment()) < 8 or not (small.assignment() and large.assignment()):
            await asyncio.gather(small.poll(timeout_ms=10), large.poll(timeout_ms=10))
        print(f"2 cores: {len(small.assignment())} partitions, 6 cores: {len(large.assignment())} partitions")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
