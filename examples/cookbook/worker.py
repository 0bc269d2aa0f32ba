"""A worker that retries: what fails three times goes to another topic with its error, and the others continue."""

import asyncio
import json
from collections.abc import Awaitable, Callable

from kohort import Admin, Consumer, Producer, Record, TopicPartition
from kohort.testing import EmbeddedBroker

Work = Callable[[bytes], Awaitable[None]]
ATTEMPTS = 3
FIRST_PAUSE_S = 0.01  # a service waits longer: all pauses of one poll must fit into max_poll_interval_ms


async def with_retries(work: Work, value: bytes) -> Exception | None:
    """Return the last error where every attempt failed."""
    error: Exception | None = None
    for attempt in range(ATTEMPTS):
        try:
            await work(value)
            return None
        except Exception as failure:
            error = failure
            await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)
    return error


async def set_aside(producer: Producer, partition: TopicPartition, record: Record, error: Exception) -> None:
    """Write a record to the topic of failed ones, with what failed and where it came from."""
    headers = {"error": repr(error).encode(), "from": f"{partition}@{record.offset}".encode()}
    delivery = await producer.send(f"{partition.topic}.failed", record.value, key=record.key, headers=headers)
    await delivery  # written, before the offset behind the record is committed


async def run(address: str, work: Work, until: asyncio.Event) -> None:
    async with (
        Producer(address) as producer,
        Consumer(
            "orders",
            bootstrap_servers=address,
            group_id="workers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        while not until.is_set():
            for batch in await consumer.poll(timeout_ms=100, max_records=20):
                for record in batch:
                    if error := await with_retries(work, record.value or b""):
                        await set_aside(producer, batch.partition, record, error)
            await consumer.commit()


async def main(address: str) -> None:
    orders = [b'{"id": 1, "price": 30}', b'{"id": 2, "price": "cheap"}', b'{"id": 3, "price": 12}', b"not JSON"]
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("orders", partitions=1)
        await admin.create_topic("orders.failed", partitions=1)
        for order in orders:
            await producer.send("orders", order)
    done, tries = asyncio.Event(), 0

    async def add_up(value: bytes) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionError("the database restarts")
        order = json.loads(value)
        print(f"order {order['id']}: {order['price'] + 5} with shipping")

    async with Consumer("orders.failed", bootstrap_servers=address, auto_offset_reset="earliest") as failed:
        worker = asyncio.create_task(run(address, add_up, done))
        aside: list[Record] = []
        while len(aside) < 2:
            for batch in await failed.poll(timeout_ms=100):
                aside += batch
        done.set()
        await worker
    for record in aside:
        print(f"set aside: {record.value!r} from {(dict(record.headers)['from'] or b'').decode()}")
    print(f"{tries} attempts at {len(orders)} orders")


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
