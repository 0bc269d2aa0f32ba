"""`Consumer.process` in worlds with failures: nothing is lost, keys keep their order, and what may be handled twice."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

import kohort.sim
from kohort import Record, Retry, TopicPartition
from kohort.sim import World

FAULTS = ["kill member", "close member", "freeze member", "kill node", "partition"]
HANDLED_MS = 400
"""A handler takes up to so long."""


class Handled:
    """What the handlers of a world did. A call counts when it has returned."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.count: Counter[tuple[TopicPartition, int]] = Counter()
        self.running: Counter[str] = Counter()
        self.at_once = 0
        self.order: dict[tuple[TopicPartition, bytes | None], list[int]] = defaultdict(list)

    def app(self, **how: Any) -> Callable[[], Coroutine[Any, Any, None]]:
        """Return a program whose handler takes a time that comes from the value, and fails for some values at first."""
        failed: set[tuple[TopicPartition, int]] = set()

        async def app() -> None:
            async with self.world.consumer("orders", auto_commit_interval_ms=1_000) as consumer:

                async def handler(record: Record) -> None:
                    place = TopicPartition(record.topic, record.partition), record.offset
                    await asyncio.sleep(int(record.value or b"0") * 37 % HANDLED_MS / 1000)
                    if record.offset % 7 == 3 and place not in failed:
                        failed.add(place)
                        raise TimeoutError
                    self.world.done(*place)
                    self.count[place] += 1
                    self.order[place[0], record.key].append(record.offset)

                await consumer.process(handler, on_error=Retry(["50ms"]), revocation_timeout_ms=5_000, **how)

        return app

    @property
    def twice(self) -> int:
        """How many handlers returned for a record that had been handled before."""
        return sum(count - 1 for count in self.count.values())


@kohort.sim.world(seeds=20, faults=FAULTS)
def test_whatever_fails_each_record_is_handled(world: World) -> None:
    handled = Handled(world)
    world.start(handled.app())
    world.run()
    world.settle()
    ends = world.end_offsets
    assert set(handled.count) == {(each, at) for each, end in ends.items() for at in range(end)}


@kohort.sim.world(seeds=20, faults=["close member"])
def test_where_members_only_come_and_go_each_record_is_handled_once(world: World) -> None:
    handled = Handled(world)
    world.start(handled.app())
    world.run()
    world.settle()
    assert handled.twice == 0
