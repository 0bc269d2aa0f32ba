"""Tasks with state move to a member only when its copy has caught up, as in Kafka Streams, on any Kafka broker."""

import asyncio

from kohort import Admin, Consumer, TasksAssignor, TopicPartition
from kohort.testing import EmbeddedBroker


class Worker:
    """Runs the tasks of its partitions, and keeps copies of others. A real program restores them from a changelog."""

    def __init__(self, address: str, name: str) -> None:
        self.name = name
        self.lags: dict[TopicPartition, int] = {}
        self.tasks = TasksAssignor(standby_replicas=0, on_copies=self.keep)
        self.consumer = Consumer(
            "orders", bootstrap_servers=address, group_id="totals", assignors=[self.tasks], heartbeat_interval_ms=100
        )

    def keep(self, standby: frozenset[TopicPartition], warmup: frozenset[TopicPartition]) -> None:
        """Begin to copy what is new; what is active needs no copy."""
        copies = standby | warmup
        if warmup:
            print(f"{self.name} warms up", *sorted(warmup))
        self.lags = {task: self.lags.get(task, 50_000) for task in copies | self.lags.keys()}

    async def poll(self) -> None:
        await self.consumer.poll(timeout_ms=10)

    @property
    def active(self) -> str:
        return " and ".join(map(str, sorted(self.consumer.assignment())))


async def main(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topic("orders", partitions=2)
    alice, bob = Worker(address, "alice"), Worker(address, "bob")
    async with alice.consumer:
        while len(alice.consumer.assignment()) < 2:
            await alice.poll()
        bob.consumer.report_standby_lag(lambda: bob.lags)
        async with bob.consumer:
            while not bob.tasks.warmup:
                await asyncio.gather(alice.poll(), bob.poll())
            print(f"alice runs {alice.active} while bob is behind")
            bob.lags = dict.fromkeys(bob.lags, 0)
            while not bob.consumer.assignment():
                await asyncio.gather(alice.poll(), bob.poll())
            print(f"alice runs {alice.active}, and bob, who has caught up, {bob.active}")


if __name__ == "__main__":
    with EmbeddedBroker() as broker:
        asyncio.run(main(broker.bootstrap_servers))
