"""A service that handles records by `Consumer.process`, and what its handlers did, for worlds that check it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from kohort import Consumer, CooperativeStickyAssignor, OutputRecord, Record, Retry, TopicPartition
from kohort.sim import Instance, World
from kohort.sim.users.world_options import WorldOptions, chosen

KINDS: tuple[Callable[[Instance], dict[str, Any]], ...] = (
    lambda _: {},
    lambda _: {"assignors": (CooperativeStickyAssignor(),)},
    lambda _: {"group_protocol": "consumer"},
    lambda instance: {"group_instance_id": instance.name},
    lambda instance: {"group_protocol": "consumer", "group_instance_id": instance.name},
)
"""How the members of a world take part in their group: classic (eager, cooperative) or not, static or not."""

COPY = b"copy of "
Place = tuple[TopicPartition, int]


def key_of(value: bytes) -> bytes | None:
    """Return the key of a value: one of seven; each eighth record has none."""
    number = int(value)
    return None if number % 8 == 7 else b"k%d" % (number % 7)


@dataclass
class Call:
    """A call of the handler. `ended_s` is None where it did not return, or raised."""

    instance: str
    began_s: float
    ended_s: float | None = None


@dataclass
class Service:
    """The handlers of one world. How long one takes, and whether it fails at first, is drawn for each record."""

    world: World
    slowest_s: float = 0.4
    kind: int | None = None
    how: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kind = self.world.seed % len(KINDS) if self.kind is None else self.kind
        self.calls: dict[Place, list[Call]] = defaultdict(list)
        self.offsets_of_key: dict[tuple[TopicPartition, bytes], set[int]] = defaultdict(set)
        self.killed: list[tuple[str, float]] = []

    def start(self) -> None:
        """Run the program on every instance."""
        self.world.start(self._app())

    def kill(self, instance: Instance) -> None:
        """Kill an instance, and note when."""
        self.killed.append((instance.name, self.world.now))
        self.world.kill(instance)

    def _app(self) -> Callable[[Instance], Coroutine[Any, Any, None]]:
        failed: set[Place] = set()

        async def app(instance: Instance) -> None:
            async def handler(record: Record) -> OutputRecord:
                place = record.topic_partition, record.offset
                call = Call(instance.name, self.world.now)
                self.calls[place].append(call)
                if record.key is not None:
                    self.offsets_of_key[place[0], record.key].add(record.offset)
                random = Random(f"{self.world.seed} {place}")
                is_slow, fails = random.random() < 0.03, random.random() < 0.1
                if self.slowest_s:
                    await asyncio.sleep(random.uniform(0, self.slowest_s * (8 if is_slow else 1)))
                if fails and place not in failed:
                    failed.add(place)
                    raise TimeoutError
                self.world.done(*place)
                call.ended_s = self.world.now
                return OutputRecord("copies", COPY + b"%d %d" % (record.partition, record.offset), record.key)

            assert self.kind is not None, "it was chosen"
            async with self.world.consumer("orders", **KINDS[self.kind](instance)) as consumer:
                how = {"on_error": Retry(["50ms"]), "revocation_timeout_ms": 2_000} | self.how
                await consumer.process(handler, **how)

        return app

    def returned(self, place: Place) -> list[Call]:
        """Return the calls for a record that returned, in the order in which they did."""
        found = [call for call in self.calls.get(place, ()) if call.ended_s is not None]
        return sorted(found, key=lambda call: call.ended_s or 0.0)

    @property
    def twice(self) -> dict[Place, list[Call]]:
        """The records for which more than one call returned."""
        return {place: calls for place in self.calls if len(calls := self.returned(place)) > 1}

    def check_all_handled(self) -> None:
        """Check that no record was lost."""
        lost = [
            (each, at)
            for each, end in self.world.end_offsets.items()
            for at in range(end)
            if not self.returned((each, at))
        ]
        assert not lost, f"never handled: {lost[:5]}"

    def check_order(self) -> None:
        """Check that no record was handled before those of its key before it."""
        for (partition, key), offsets in self.offsets_of_key.items():
            in_order = sorted(offsets)
            for before, after in pairwise(in_order):
                first_s = self.returned((partition, before))[0].ended_s or 0.0
                for call in self.calls[partition, after]:
                    assert call.began_s >= first_s, f"{partition}@{after} of {key!r} began before {before} was handled"

    def check_repeats(self, within_s: float) -> None:
        """Check that what was handled twice had finished at most so long before its process was killed."""
        for place, calls in self.twice.items():
            for call in calls[:-1]:
                ended_s = call.ended_s or 0.0
                ages = [at_s - ended_s for name, at_s in self.killed if name == call.instance and at_s >= ended_s]
                age_s = min(ages, default=float("inf"))
                text = f"{place} was handled again: {call.instance} had finished it {age_s:.3f} s before it was killed"
                assert age_s <= within_s, text


async def committed_copies(world: World) -> dict[int, list[int]]:
    """Return what `read_committed` readers see of the copies: the offsets of each partition of the orders, in order."""
    found: dict[int, list[int]] = defaultdict(list)
    reader = Consumer(
        bootstrap_servers=world.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    async with reader:
        copies = [TopicPartition("copies", number) for number in range(world.topics["copies"])]
        reader.assign(copies)
        ends = await reader.end_offsets(copies)
        while any([await reader.position(each) < end for each, end in ends.items()]):
            for batch in await reader.poll(100):
                for record in batch:
                    if record.value.startswith(COPY):  # the others are the world's own
                        partition, offset = map(int, record.value.removeprefix(COPY).split())
                        found[partition].append(offset)
    return found


# -- courses of worlds


def whatever_fails(world: World) -> None:
    """Let faults happen: each record is handled, and each key in order."""
    service = Service(world)
    service.start()
    world.run()
    world.settle()
    service.check_all_handled()
    service.check_order()


def members_come_and_go(world: World) -> None:
    """Start and close members: each record is handled once."""
    service = Service(world)
    service.start()
    world.run()
    world.settle()
    service.check_order()
    assert not service.twice, "each record is handled once"


class ProgramWorlds(NamedTuple):
    """The course of a world, and what is drawn for it."""

    course: Callable[[World], None]
    options: WorldOptions


FAILING = ("kill member", "close member", "freeze member", "kill node", "partition")
COMING = ("close member",)
WITH_FAILURES = ProgramWorlds(whatever_fails, WorldOptions(faults=chosen(FAILING), key=key_of))
CLEAN = ProgramWorlds(members_come_and_go, WorldOptions(faults=chosen(COMING), key=key_of))
