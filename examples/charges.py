"""A service: many orders at once, each customer's in order; what fails is tried again, and then set aside."""

import asyncio
import logging

from kohort import Admin, Consumer, DeadLetter, Producer, Record, Retry
from kohort.testing import EmbeddedBroker

ORDERS = {b"ann": [b"40", b"nothing", b"2"], b"ben": [b"7", b"8"], b"cem": [b"1"]}
charged: dict[bytes, list[int]] = {}
logging.basicConfig(level=logging.ERROR)  # without the warning of each dead letter


async def charge(order: Record) -> None:
    customer, amount = order.key or b"", order.value or b""
    await asyncio.sleep(0.02)  # a call over the network
    charged.setdefault(customer, []).append(int(amount))


async def main() -> None:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as kafka:
        async with Admin(kafka.bootstrap_servers) as admin:
            await admin.create_topic("orders", partitions=1)
            await admin.create_topic("orders.dlq", partitions=1)
        async with Producer(kafka.bootstrap_servers) as producer:
            for customer, amounts in ORDERS.items():
                for amount in amounts:
                    await producer.send("orders", amount, key=customer)

        service = Consumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
        )
        policy = Retry(["10ms", "50ms"], then=DeadLetter("orders.dlq"))
        async with service, asyncio.TaskGroup() as tasks:
            tasks.create_task(service.process(charge, on_error=policy))
            while sum(map(len, charged.values())) < 5:
                await asyncio.sleep(0.01)
            await service.stop()

        for customer, amounts_charged in sorted(charged.items()):
            print(customer.decode(), amounts_charged)
        async with Consumer(
            "orders.dlq", bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
        ) as letters:
            (batch,) = await letters.poll(timeout_ms=10_000)
            for letter in batch:
                why = dict(letter.headers)["__connect.errors.exception.message"]
                print("not charged:", letter.key, letter.value, "because of", (why or b"").decode())


asyncio.run(main())
