"""64 tenants are shared among services, and move without a pause: a service serves on while others come and go."""

import asyncio

from kohort import CooperativeProtocol, GroupMember, share_evenly
from kohort.testing import EmbeddedBroker

TENANTS = [f"tenant-{number}" for number in range(64)]


class Service:
    """Serves its tenants, one task for each."""

    def __init__(self, address: str, name: str) -> None:
        self.name = name
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.served: dict[str, int] = {}
        self.member = GroupMember(
            address,
            group_id="tenants",
            protocol_type="shards",
            protocols=CooperativeProtocol(name="evenly", assign=share_evenly(TENANTS)),
            on_assigned=self.begin,
            on_revoked=self.end,
        )

    def begin(self, tenants: frozenset[str]) -> None:
        self.tasks |= {tenant: asyncio.create_task(self.serve(tenant)) for tenant in tenants}

    async def end(self, tenants: frozenset[str]) -> None:
        """The next owner begins when this returns."""
        ended = [self.tasks.pop(tenant) for tenant in tenants]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    async def serve(self, tenant: str) -> None:
        while True:
            self.served[tenant] = self.served.get(tenant, 0) + 1
            await asyncio.sleep(0.001)

    async def has(self, count: int) -> None:
        await self.member.wait_for(lambda: self.member.is_stable and len(self.tasks) == count)


async def main(address: str) -> None:
    first, second = Service(address, "first"), Service(address, "second")
    async with first.member:
        await first.has(64)
        tasks = dict(first.tasks)
        print("first serves", len(first.tasks))
        async with second.member:
            await first.has(32)
            await second.has(32)
            kept = [tenant for tenant, task in first.tasks.items() if task is tasks[tenant]]
            print("first serves", len(first.tasks), "and second", len(second.tasks))
            print(len(kept), "of them first has served without a pause")
            print("none has two:", not first.tasks.keys() & second.tasks.keys())
        await first.has(64)
        print("first serves", len(first.tasks), "again")
        print("all of first's own were served on:", all(first.tasks[tenant] is tasks[tenant] for tenant in kept))


if __name__ == "__main__":
    with EmbeddedBroker() as broker:
        asyncio.run(main(broker.bootstrap_servers))
