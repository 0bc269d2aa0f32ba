"""`Consumer.process` in worlds with failures: nothing is lost, keys keep their order, and what may be handled twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from tests.depth import examples
from tests.sim.process_programs import (
    COMING,
    FAILING,
    KINDS,
    Service,
    committed_copies,
    key_of,
    members_come_and_go,
    whatever_fails,
)

import kohort.sim
from kohort import DeadLetter, Record, Retry, TopicPartition
from kohort.sim import Instance, World

REPEATED_S = 0.11
"""What finished so long before a kill is committed: 100 ms pass between two commits, and less than 10 until it is."""


@kohort.sim.world(seeds=examples(25), faults=FAILING, keys=key_of)
def test_whatever_fails_each_record_is_handled_and_each_key_in_order(world: World) -> None:
    whatever_fails(world)


@kohort.sim.world(seeds=examples(25), faults=COMING, keys=key_of)
def test_where_members_only_come_and_go_each_record_is_handled_once(world: World) -> None:
    members_come_and_go(world)


@kohort.sim.world(
    seeds=[*range(examples(15)), 105, 249], faults=FAILING, keys=key_of, topics={"orders": 4, "copies": 2}
)
def test_whatever_fails_each_record_has_one_copy(world: World) -> None:
    service = Service(world, how={"exactly_once": True})
    service.start()
    world.run()
    world.settle()
    service.check_order()
    loop = world.test_loop()

    async def check() -> None:
        copies = await committed_copies(world)
        orders = {each.partition: end for each, end in world.end_offsets.items() if each.topic == "orders"}
        seen = {number: sorted(copies[number]) for number in orders}
        assert seen == {number: list(range(end)) for number, end in orders.items()}, "each order has one copy"

    try:
        world.drive(loop, check())
    finally:
        loop.close()


@kohort.sim.world(seeds=[*range(examples(15)), 38], faults=FAILING, keys=key_of, topics={"orders": 4, "retry": 2})
def test_what_waits_in_a_retry_topic_is_handled_whatever_fails(world: World) -> None:
    calls: Counter[tuple[str, int, int]] = Counter()
    handled: set[tuple[str, int, int]] = set()

    async def app(instance: Instance) -> None:
        async def handler(record: Record) -> None:
            place = record.topic, record.partition, record.offset
            calls[place] += 1
            random = Random(f"{world.seed} {place}")
            await asyncio.sleep(random.uniform(0, 0.4))
            if calls[place] <= random.choice((0, 0, 0, 1, 2, 3)):
                raise TimeoutError
            handled.add(place)

        policy = Retry(["50ms", "1s", "4s"], order="none", topic="retry", park_after="1s")
        async with world.consumer("orders", **KINDS[world.seed % len(KINDS)](instance)) as consumer:
            await consumer.process(handler, on_error=policy, revocation_timeout_ms=2_000)

    world.start(app)
    world.run()
    world.settle()
    world.run(30)  # the last ones are due
    orders = {each: end for each, end in world.end_offsets.items() if each.topic == "orders"}
    lost = [(*each, at) for each, end in orders.items() for at in range(end) if (*each, at) not in handled]
    assert not lost, f"never handled: {lost[:5]}"


@kohort.sim.world(seeds=1, faults=None, keys=key_of, instances=1)
def test_a_stop_cancels_calls_while_there_is_time_to_leave_the_group(world: World) -> None:
    took_s: list[float] = []

    async def app(_: Instance) -> None:
        began = asyncio.Event()

        async def handler(_: Record) -> None:
            began.set()
            await asyncio.Event().wait()

        async with world.consumer("orders") as consumer, asyncio.TaskGroup() as tasks:
            tasks.create_task(consumer.process(handler))
            await began.wait()
            stopped_s = world.now
            await consumer.stop(timeout_ms=5_000)
            took_s.append(world.now - stopped_s)

    world.start(app)
    world.send("orders", b"1", partition=0)
    world.run(30)
    assert 4 <= took_s[0] < 4.5, "cancelled after 4 s, and the coordinator answers at once"


@kohort.sim.world(seeds=1, faults=None, keys=key_of, instances=1, topics={"orders": 1, "letters": 1})
def test_the_first_dead_letter_waits_for_a_broker_that_is_down(world: World) -> None:
    began: list[int] = []

    async def app(_: Instance) -> None:
        async def handler(order: Record) -> None:
            began.append(order.offset)
            await asyncio.sleep(5)
            raise ValueError

        async with world.consumer("orders") as consumer:
            await consumer.process(handler, on_error=DeadLetter("letters"))

    world.start(app)
    world.send("orders", b"1")
    while not began:
        world.run(0.1)
    world.restart_broker(seconds=90)
    world.run(180)
    assert world.end_offsets[TopicPartition("letters", 0)] == 1


@kohort.sim.world(seeds=examples(25), faults=None, keys=key_of, instances=3)
def test_a_kill_repeats_what_ran_and_what_finished_within_a_commit(world: World) -> None:
    service, random = Service(world), Random(world.seed)
    service.start()
    world.wait_stable()
    for _ in range(3):
        for partition in range(4):
            world.send("orders", *(b"%d" % random.randrange(1_000) for _ in range(40)), partition=partition)
        world.run(random.uniform(0.1, 1.5))
        victim = random.choice([each for each in world.instances if each.is_up])
        service.kill(victim)
        world.run(random.uniform(0, 8))
        victim.start()
        world.wait_stable()
    world.settle()
    service.check_all_handled()
    service.check_order()
    service.check_repeats(REPEATED_S)


@kohort.sim.world(seeds=examples(8), faults=None, instances=1)
def test_a_kill_of_a_fast_service_repeats_what_ran_and_little_more_than_a_hundred_records(world: World) -> None:
    service, random = Service(world, slowest_s=0.001, how={"concurrency": 20}), Random(world.seed)
    service.start()
    world.wait_stable()
    for partition in range(4):
        world.send("orders", *(b"%d" % each for each in range(1_500)), partition=partition)
    enough = random.randrange(500, 5_000)
    while len(service.calls) < enough:
        world.run(0.01)
    (instance,) = world.instances
    service.kill(instance)
    instance.start()
    world.settle()
    service.check_all_handled()
    assert 0 < len(service.twice) <= 20 + 100 + 100
