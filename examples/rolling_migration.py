"""A group changes to the consumer protocol by a rolling restart: the plan before it, and the group after it."""

import asyncio
from typing import Literal

from kohort import Admin, Consumer
from kohort import main as kohort
from kohort.testing import EmbeddedBroker

MEMBERS = ("m-1", "m-2", "m-3")


async def command(address: str, *words: str) -> None:
    print(f"$ kohort {' '.join(words)}", flush=True)
    await asyncio.to_thread(kohort, [*words, "--bootstrap-server", address])
    print()


async def shared(members: dict[str, Consumer]) -> None:
    """Poll until each member has four of the twelve partitions."""
    while not all(len(member.assignment()) == 4 for member in members.values()):
        await asyncio.gather(*[member.poll(timeout_ms=10) for member in members.values()])


async def main(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topic("orders", partitions=12)

    async def started(name: str, protocol: Literal["classic", "consumer"]) -> Consumer:
        member = Consumer(
            "orders", bootstrap_servers=address, group_id="billing", client_id=name, group_protocol=protocol
        )
        await member.start()
        return member

    members = {name: await started(name, "classic") for name in MEMBERS}
    await shared(members)
    await command(address, "migrate", "plan", "billing", "--to", "consumer")
    for name in MEMBERS:
        await members[name].stop()
        members[name] = await started(name, "consumer")
        await shared(members)
    async with Admin(address) as admin:
        while {each.state for each in await admin.list_groups()} != {"Stable"}:
            await asyncio.gather(*[member.poll(timeout_ms=10) for member in members.values()])
    await command(address, "groups", "list", "--no-lag")
    await command(address, "migrate", "plan", "billing", "--to", "consumer")
    for member in members.values():
        await member.stop()


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
