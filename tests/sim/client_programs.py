"""Programs as our users write them, on the real client: every protocol, every way to commit, drawn from a seed.

They are correct: what a program commits has taken effect, and it does not touch what it gave up. So
whatever breaks their world is the client's fault, or the broker's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from kohort import (
    Consumer,
    CooperativeStickyAssignor,
    KafkaError,
    RangeAssignor,
    RebalanceListener,
    Record,
    RoundRobinAssignor,
    StickyAssignor,
    TopicPartition,
)
from kohort.model.assignment import Partitions
from kohort.sim import Instance, World
from kohort.sim.kernel.rng import Rng

CLASSIC: dict[str, tuple[type[Any], ...]] = {
    "range": (RangeAssignor,),
    "roundrobin": (RoundRobinAssignor,),
    "sticky": (StickyAssignor,),
    "cooperative": (CooperativeStickyAssignor,),
    "default": (RangeAssignor, CooperativeStickyAssignor),
}
FAMILIES = {
    "eager": ("range",),
    "roundrobin": ("roundrobin",),
    "sticky": ("sticky",),
    "cooperative": ("cooperative",),
    "default": ("default",),
    "rolling": ("default", "cooperative"),
    "consumer": ("consumer",),
    "auto": ("auto",),
    "mixed": ("cooperative", "consumer", "auto"),
}
"""Which kinds of member may be in one group."""


@dataclass(frozen=True)
class Habits:
    """How one instance of a program behaves."""

    kind: str
    commit: str
    work_ms: int
    has_worker: bool
    polls: bool
    is_static: bool
    fidgets: bool
    callback_ms: int

    def settings(self, name: str) -> dict[str, Any]:
        """Return the settings of its consumer."""
        found: dict[str, Any] = {"enable_auto_commit": self.commit == "auto", "client_id": name}
        if self.is_static:
            found["group_instance_id"] = f"slot-{name}"
        if self.kind in ("consumer", "auto"):
            return found | {"group_protocol": self.kind, "protocol_check_ms": 5_000}
        return found | {"assignors": tuple(each() for each in CLASSIC[self.kind])}


def draw_habits(random: Random, family: str, is_static: bool) -> Habits:
    """Return how a user might write it."""
    return Habits(
        kind=random.choice(FAMILIES[family]),
        commit=random.choice(("auto", "auto", "batch", "async", "record", "revoked")),
        work_ms=random.choice((0, 0, 5, 30)),
        has_worker=random.random() < 0.3,
        polls=random.random() < 0.5,
        is_static=is_static,
        fidgets=random.random() < 0.3,
        callback_ms=random.choice((0, 0, 0, 300, 3_000)),
    )


class Program(RebalanceListener):
    """One process. A worker's queue is emptied, by working, before a partition is given up."""

    def __init__(self, world: World, name: str, habits: Habits, random: Random) -> None:
        self.world = world
        self.habits = habits
        self.random = random
        self.consumer: Consumer = world.consumer("orders", listener=self, **habits.settings(name))
        self.queue: deque[tuple[TopicPartition, int]] = deque()
        self.finished: dict[TopicPartition, int] = {}
        self.working_on: TopicPartition | None = None
        self.terms: dict[TopicPartition, int] = {}
        """How often each partition was given up."""
        self.news = asyncio.Event()

    async def on_partitions_assigned(self, _: Partitions) -> None:
        await asyncio.sleep(self.habits.callback_ms / 1000)

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        try:
            await self.drain(partitions)
        finally:  # there may have been no time for all of it
            self.drop(partitions)
        if self.habits.commit != "auto":
            await self.commit({each: self.finished.pop(each) for each in sorted(partitions & self.finished.keys())})
        await asyncio.sleep(self.habits.callback_ms / 1000)

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        self.drop(partitions)
        for partition in sorted(partitions):
            self.finished.pop(partition, None)

    def drop(self, partitions: Partitions) -> None:
        """Forget what is waiting of some partitions."""
        self.queue = deque(entry for entry in self.queue if entry[0] not in partitions)
        for partition in partitions:
            self.terms[partition] = self.terms.get(partition, 0) + 1

    async def drain(self, partitions: Partitions) -> None:
        """Wait until the worker has done what is waiting of some partitions."""
        while self.working_on in partitions or any(entry[0] in partitions for entry in self.queue):
            await asyncio.sleep(0.01)

    async def run(self) -> None:
        async with self.consumer:
            worker = asyncio.create_task(self.work())
            try:
                await self.read()
            finally:
                await self.drain(frozenset(self.consumer.assignment()))
                worker.cancel()

    async def read(self) -> None:
        """Read for ever."""
        while True:
            if self.habits.polls:
                batches = await self.consumer.poll(timeout_ms=1_000, max_records=self.random.choice((1, 5, 100)))
                await self.take([record for batch in batches for record in batch])
            else:
                await self.take([await anext(self.consumer)])
            if self.habits.commit == "batch" and not self.habits.has_worker:
                await self.commit(None)
            elif self.habits.commit == "async" and not self.habits.has_worker:
                self.consumer.commit_async(on_complete=lambda *_: None)
            elif self.habits.has_worker and self.habits.commit in ("batch", "async", "record"):
                finished, self.finished = self.finished, {}
                await self.commit(finished)
            # A rebalance that is enforced after each single record would leave no time between rounds.
            if self.habits.fidgets and (self.habits.polls or self.random.random() < 0.05):
                await self.fidget()

    async def take(self, records: list[Record]) -> None:
        """Do the work of records, or leave it to the worker."""
        for record in records:
            if self.habits.has_worker and self.habits.commit != "auto":
                while len(self.queue) >= 20:
                    await asyncio.sleep(0.05)
                self.queue.append((record.topic_partition, record.offset))
                self.news.set()
                continue
            await self.do(record.topic_partition, record.offset)
            if self.habits.commit == "record":
                await self.commit({record.topic_partition: record.offset + 1})

    async def work(self) -> None:
        """Be the worker."""
        while True:
            while self.queue:
                partition, offset = self.queue[0]
                self.working_on = partition
                self.queue.popleft()
                try:
                    await self.do(partition, offset)
                finally:
                    self.working_on = None
            self.news.clear()
            await self.news.wait()

    async def do(self, partition: TopicPartition, offset: int) -> None:
        """Work on a record."""
        term = self.terms.get(partition, 0)
        if self.habits.work_ms:
            await asyncio.sleep(self.random.random() * self.habits.work_ms / 1000)
        if term == self.terms.get(partition, 0):
            self.world.done(partition, offset)
            self.finished[partition] = offset + 1

    async def commit(self, offsets: dict[TopicPartition, int] | None) -> None:
        """Commit; what the group refuses is read again by its next owner."""
        with suppress(KafkaError):
            await self.consumer.commit(offsets)

    async def fidget(self) -> None:
        """Do what consumers may do between two polls."""
        held = sorted(self.consumer.assignment())
        match self.random.randrange(12):
            case 0:
                self.consumer.enforce_rebalance("the program says so")
            case 1 if held:
                self.consumer.pause(held[:1])
                asyncio.get_running_loop().call_later(2, self.resume, held[:1])
            case 2 if held:
                await self.ask(self.consumer.committed(held))
            case 3 if held:
                await self.ask(self.consumer.end_offsets(held))
            case 4:
                await asyncio.to_thread(sum, range(10))
            case _:
                pass

    def resume(self, partitions: list[TopicPartition]) -> None:
        there = self.consumer.assignment()
        self.consumer.resume([each for each in partitions if each in there])

    async def ask(self, question: Any) -> None:
        with suppress(KafkaError):
            await question


def start(world: World, families: tuple[str, ...] = tuple(FAMILIES)) -> None:
    """Start a program whose habits the world's seed draws."""
    rng = Rng(world.seed)
    random = rng.stream("program")
    family = random.choice(families)
    is_static = random.random() < 0.25
    habits = {instance.name: draw_habits(random, family, is_static) for instance in world.instances}

    async def app(instance: Instance) -> None:
        mine = habits.get(instance.name) or next(iter(habits.values()))
        await Program(world, instance.name, mine, rng.stream(f"program/{instance.name}")).run()

    world.start(app)
