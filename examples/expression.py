"""A consumer subscribes to a regular expression: later topics are read too. Callbacks are functions."""

import asyncio
import re

from kohort import Admin, Consumer, Producer
from kohort.testing import EmbeddedBroker


async def main(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("flights-2013", partitions=2)
        async with Consumer(
            bootstrap_servers=address,
            group_id="archive",
            auto_offset_reset="earliest",
            metadata_max_age_ms=100,
            value_deserializer=bytes.decode,
        ) as consumer:
            await consumer.subscribe(
                re.compile(r"flights-\d{4}"),
                on_assigned=lambda partitions: print("assigned", *sorted(map(str, partitions))),
                on_revoked=lambda partitions: print("revoked", *sorted(map(str, partitions))),
            )
            while not consumer.assignment():
                await consumer.poll(timeout_ms=100)
            await admin.create_topic("flights-2014", partitions=1)
            await producer.send("flights-2014", b"N14228")
            while not (batches := await consumer.poll(timeout_ms=100)):
                pass
            print("read", *(record.value for batch in batches for record in batch))
            print("topics", *sorted(consumer.subscription()))
            numbers = consumer.metrics()
            print(f"{numbers['rebalance-total']} rebalances, {numbers['failed-rebalance-total']} failures")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
