"""A test with a rebalance: totals in memory are saved before another member gets their partitions."""

import asyncio

import pytest

from kohort import Consumer, Producer, RebalanceListener, TopicPartition
from kohort.testing import EmbeddedBroker

Store = dict[TopicPartition, int]


class Totals(RebalanceListener):
    """The code under test: adds up numbers by partition, and saves totals when partitions are revoked."""

    def __init__(self, address: str, store: Store) -> None:
        self.store = store
        self.totals: Store = {}
        self.consumer = Consumer(
            "numbers",
            bootstrap_servers=address,
            group_id="totals",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            listener=self,
        )

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions & self.totals.keys():
            self.store[partition] = self.store.get(partition, 0) + self.totals.pop(partition)
        await self.consumer.commit()

    async def read(self) -> None:
        for batch in await self.consumer.poll(timeout_ms=10):
            for record in batch:
                self.totals[batch.partition] = self.totals.get(batch.partition, 0) + int(record.value or b"0")


async def send(address: str, numbers: range) -> None:
    async with Producer(address) as producer:
        for number in numbers:
            await producer.send("numbers", b"%d" % number, partition=number % 4)


async def share(address: str) -> Store:
    store: Store = {}
    await send(address, range(100))
    first, second = Totals(address, store), Totals(address, store)
    async with first.consumer:
        while sum(first.totals.values()) < sum(range(100)):
            await first.read()
        async with second.consumer:
            while len(second.consumer.assignment()) < 2:  # the rebalance
                await asyncio.gather(first.read(), second.read())
            await send(address, range(100, 200))
            while sum(store.values()) + sum([*first.totals.values(), *second.totals.values()]) < sum(range(200)):
                await asyncio.gather(first.read(), second.read())
    return store


@pytest.mark.kohort_settings(num_partitions=4)
def test_each_number_is_added_once(kohort_broker: EmbeddedBroker) -> None:
    store = asyncio.run(share(kohort_broker.bootstrap_servers))
    assert {partition.partition for partition in store} == {0, 1, 2, 3}
    assert sum(store.values()) == sum(range(200))
