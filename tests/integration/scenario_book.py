"""Where scenarios are written down: what our client does on any broker, ours or a real Apache Kafka.

Each scenario gets a bootstrap address and a name that is its own. `run` ends by looking for tasks left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kohort.client import Admin, Consumer, Producer, RebalanceListener
from kohort.model.assignment import Partitions

Scenario = Callable[[str, str], Awaitable[None]]
SCENARIOS: list[Scenario] = []
PATIENCE_MS = 20_000


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


def run(function: Scenario, bootstrap: str, name: str) -> None:
    """Run a scenario in a loop of its own; nothing of it may be left running."""

    async def main() -> None:
        async with asyncio.timeout(90):
            await function(bootstrap, name)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks that are still running: {left}"

    asyncio.run(main(), debug=False)


class Recorder(RebalanceListener):
    """Records the callbacks of a listener."""

    def __init__(self) -> None:
        self.callbacks: list[tuple[str, int]] = []

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        self.callbacks.append(("revoked", len(partitions)))

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        self.callbacks.append(("assigned", len(partitions)))

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        self.callbacks.append(("lost", len(partitions)))


async def create(bootstrap: str, name: str, partitions: int) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(name, partitions)


async def produce(bootstrap: str, topic: str, count: int, keys: int = 50) -> None:
    async with Producer(bootstrap) as producer:
        for at in range(count):
            await producer.send(topic, b"%d" % at, key=b"%d" % (at % keys))


async def poll_until(consumer: Consumer, condition: Callable[[], bool]) -> int:
    """Poll until the condition holds; return how many records came."""
    count = 0
    while not condition():
        count += sum(len(batch) for batch in await consumer.poll(50))
    return count
