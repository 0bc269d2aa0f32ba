"""Forecasts for a live group: a rolling restart, a kill, and the rolling restart in each protocol."""

import asyncio

from kohort import Admin, Consumer
from kohort import main as kohort
from kohort.testing import EmbeddedBroker

MEMBERS = ("m-1", "m-2", "m-3")
GIVEN = ("--callback-ms", "200", "--network-ms", "1", "--produce-rate", "1200")


async def command(address: str, *words: str) -> None:
    print(f"$ kohort {' '.join(words)}", flush=True)
    await asyncio.to_thread(kohort, [*words, *GIVEN, "--bootstrap-server", address])
    print()


async def main(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topic("orders", partitions=12)
    members = [
        Consumer("orders", bootstrap_servers=address, group_id="billing", client_id=name, enable_auto_commit=False)
        for name in MEMBERS
    ]
    for member in members:
        await member.start()
    while not all(len(member.assignment()) == 4 for member in members):
        await asyncio.gather(*[member.poll(timeout_ms=10) for member in members])
    await command(address, "what-if", "billing", "--bounce", "rolling", "--pause", "30s")
    await command(address, "what-if", "billing", "--kill", "m-2", "--add", "3")
    await command(address, "what-if", "billing", "--bounce", "rolling", "--pause", "30s", "--compare")
    for member in members:
        await member.stop()


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
