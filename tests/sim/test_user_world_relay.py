"""Programs that write as well: the real `Producer` and `Admin` in worlds that break."""

from __future__ import annotations

import asyncio
from collections import Counter

import kohort.sim
from kohort import Admin, Producer
from kohort.sim import World

BILLS = "bills"


async def values_of(world: World, topic: str) -> Counter[bytes]:
    """Read a whole topic, outside of any group."""
    found: Counter[bytes] = Counter()
    async with world.consumer(topic, group_id=None) as consumer:
        ends = {each: end for each, end in world.end_offsets.items() if each.topic == topic and end}
        while ends:
            for batch in await consumer.poll(timeout_ms=1_000):
                found.update(bytes(record.value) for record in batch)
                if batch.next_offset >= ends[batch.partition]:
                    del ends[batch.partition]
    return found


@kohort.sim.world(seeds=12, topics={"orders": 3, BILLS: 2}, values=lambda number: b"order %d" % number)
async def test_every_order_has_its_bill_whatever_happens_to_the_one_who_writes_them(world: World) -> None:
    async def app() -> None:
        producer = Producer(world.bootstrap_servers, request_timeout_ms=5_000, delivery_timeout_ms=10_000)
        consumer = world.consumer("orders", enable_auto_commit=False)
        async with producer, consumer:
            while True:
                batches = await consumer.poll(timeout_ms=1_000)
                orders = [record.value for batch in batches for record in batch]
                sent = [await producer.send(BILLS, b"bill for " + order) for order in orders]
                for delivery in sent:
                    await delivery
                for batch in batches:
                    world.done(batch)
                await consumer.commit()

    world.start(app)
    world.settle()
    orders = await values_of(world, "orders")
    bills = await values_of(world, BILLS)
    billed = {bill.removeprefix(b"bill for ") for bill in bills if bill.startswith(b"bill for ")}
    assert orders.keys() <= billed


@kohort.sim.world(faults=None)
async def test_an_idempotent_producer_writes_a_record_once_through_a_broker_that_comes_and_goes(
    world: World,
) -> None:
    sent = 0
    async with Producer(world.bootstrap_servers, linger_ms=20, request_timeout_ms=2_000) as producer:
        for how in ("kill", "power loss", "stop", "kill"):
            for number in range(50):
                await producer.send("orders", b"%d" % (sent + number))
            sent += 50
            await asyncio.sleep(0.03)
            world.restart_broker(how=how)
            await asyncio.sleep(3)
        await producer.flush()
    assert await values_of(world, "orders") == Counter(b"%d" % number for number in range(sent))


@kohort.sim.world(faults=None)
async def test_topics_are_made_and_grown_by_the_real_admin(world: World) -> None:
    async with Admin(world.bootstrap_servers) as admin:
        await admin.create_topic("new", 3)
        await admin.create_partitions("new", 5)
        described = await admin.describe_topics(["new"])
        assert len(described["new"].partitions) == 5
