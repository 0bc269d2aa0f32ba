"""How tests of users' programs use `kohort.sim`, as a type checker sees it."""

from __future__ import annotations

from typing import Any, assert_type

import kohort.sim
from kohort import Consumer, TopicPartition
from kohort.sim import Instance, World


@kohort.sim.world
def test_plain(world: World) -> None:
    async def app(instance: Instance) -> None:
        async with world.consumer("orders", client_id=instance.name) as consumer:
            assert_type(consumer, Consumer[Any, Any])
            async for record in consumer:
                world.done(record)
            for batch in await consumer.poll():
                world.done(batch)
                world.done(batch.partition, batch.first_offset)

    world.start(app)
    world.run()
    world.settle(60)
    assert_type(world.processed, dict[TopicPartition, list[int]])
    assert_type(world.committed, dict[TopicPartition, int])
    assert_type(world.now, float)


@kohort.sim.world(seeds=500, topics={"orders": 6}, instances=3, seconds=30, faults=["kill member"], settings={"a_b": 1})
async def test_async(world: World) -> None:
    async def app() -> None: ...

    world.start(app)
    world.invariant(lambda: world.now < 100, every=0.5)


@kohort.sim.world(faults=None, values=lambda number: b"%d" % number)
def test_by_hand(world: World) -> None:
    lost = world.lose()
    assert_type(lost, Instance)
    lost.start()
    world.kill(world.revoke())
    world.freeze(3)
    world.cut_off(3, lost)
    world.stop()
    world.rebalance()
    world.restart_broker(seconds=2, how="stop")
    world.wait_stable()


test_plain()
kohort.sim.world(seeds="many")  # type: ignore[arg-type]
world_failed: type[AssertionError] = kohort.sim.WorldFailed
