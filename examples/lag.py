"""The lag of a group, in records and in seconds, as `kohort groups describe` prints it."""

import asyncio
import time

from kohort import Admin, Consumer, Producer
from kohort.testing import EmbeddedBroker


async def main(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topic("payments", partitions=2)
        two_hours_ago_ms = int(time.time() - 7200) * 1000
        async with Producer(address) as producer:
            for number in range(100):
                await producer.send("payments", b"42", partition=number % 2, timestamp_ms=two_hours_ago_ms)

        async with Consumer(
            "payments", bootstrap_servers=address, group_id="ledger", auto_offset_reset="earliest"
        ) as consumer:
            seen = 0
            while seen < 70:
                seen += sum(len(batch) for batch in await consumer.poll(timeout_ms=1000, max_records=70 - seen))
        lags = (await admin.lag("ledger")).values()
        unread, longest_s = sum(lag.records or 0 for lag in lags), max(lag.seconds or 0 for lag in lags)
        print(f"{unread} payments are not in the ledger yet, the oldest for {longest_s / 3600:.0f} h")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
