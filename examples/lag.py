"""The lag of a group by partition, as `kohort groups describe` prints it."""

import asyncio

from kohort import Admin, Consumer, Producer
from kohort.testing import EmbeddedBroker


async def lag(admin: Admin, group: str) -> dict[str, int]:
    committed = await admin.group_offsets(group)
    ends = await admin.list_offsets(dict.fromkeys(committed, "latest"))
    return {str(partition): ends[partition].offset - entry.offset for partition, entry in sorted(committed.items())}


async def main(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topic("payments", partitions=2)
        async with Producer(address) as producer:
            for number in range(100):
                await producer.send("payments", b"42", partition=number % 2)

        settings = {"bootstrap_servers": address, "group_id": "ledger", "auto_offset_reset": "earliest"}
        async with Consumer("payments", **settings) as consumer:
            seen = 0
            while seen < 70:
                seen += sum(len(batch) for batch in await consumer.poll(timeout_ms=1000, max_records=70 - seen))
        behind = await lag(admin, "ledger")
        print(f"{sum(behind.values())} payments are not in the ledger yet, on {len(behind)} partitions")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
