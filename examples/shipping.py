"""A consumer with a bug in its rebalance callback, a simulation that finds it, and the corrected consumer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import kohort.sim
from kohort import Consumer, RebalanceListener, Record, TopicPartition

Ship = Callable[[list[Record]], Awaitable[None]]


class Shipping(RebalanceListener):
    """Packs the orders of a partition into parcels of ten, ships them, and commits what it has shipped."""

    def __init__(self, ship: Ship, **settings: Any) -> None:
        self.ship = ship
        self.parcels: dict[TopicPartition, list[Record]] = {}
        self.consumer = Consumer("orders", listener=self, enable_auto_commit=False, **settings)

    async def run(self) -> None:
        async with self.consumer:
            while True:
                batches = await self.consumer.poll(timeout_ms=1_000)
                for batch in batches:
                    self.parcels.setdefault(batch.partition, []).extend(batch)
                await self.send_off([p for p, parcel in self.parcels.items() if len(parcel) >= 10 or not batches])

    async def send_off(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            parcel = self.parcels.pop(partition, [])
            if parcel:
                await self.ship(parcel)
                await self.consumer.commit({partition: parcel[-1].offset + 1})

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await self.consumer.commit()
        for partition in partitions:
            self.parcels.pop(partition, None)


class CarefulShipping(Shipping):
    """Also ships incomplete parcels before their partition is revoked, and nothing after that."""

    def __init__(self, ship: Ship, **settings: Any) -> None:
        super().__init__(ship, **settings)
        self.shipping = asyncio.Lock()

    async def send_off(self, partitions: Iterable[TopicPartition]) -> None:
        async with self.shipping:
            await super().send_off(partitions)

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await self.send_off(partitions)

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        async with self.shipping:
            for partition in partitions:
                self.parcels.pop(partition, None)


def run_in(world: kohort.sim.World, program: type[Shipping]) -> None:
    async def ship(parcel: list[Record]) -> None:
        await asyncio.sleep(0.05)
        for order in parcel:
            world.done(order)

    async def app() -> None:
        await program(ship, **world.settings).run()

    world.start(app)
    world.run()


FAULTS = ["kill member", "close member", "freeze member", "kill node", "partition"]


@kohort.sim.world(seeds=20, faults=FAULTS)
def test_every_order_is_shipped(world: kohort.sim.World) -> None:
    run_in(world, Shipping)


@kohort.sim.world(seeds=20, faults=FAULTS)
def test_every_order_is_shipped_with_care(world: kohort.sim.World) -> None:
    run_in(world, CarefulShipping)


if __name__ == "__main__":
    try:
        test_every_order_is_shipped()
    except kohort.sim.WorldFailed as failed:
        print(failed)
    test_every_order_is_shipped_with_care()
    print("\nCarefulShipping: nothing lost in 20 worlds")
