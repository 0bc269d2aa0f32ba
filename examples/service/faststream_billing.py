"""The worker as a program of FastStream: `faststream run faststream_billing:app`."""

import asyncio

from faststream import FastStream
from pydantic import BaseModel

from kohort import DeadLetter, Retry
from kohort.faststream import KohortBroker

broker = KohortBroker("127.0.0.1:9092")
app = FastStream(broker)


class Order(BaseModel):
    customer: str
    amount: int


@broker.subscriber(
    "orders",
    group_id="billing",
    auto_offset_reset="earliest",
    on_error=Retry(["1s", "10s", "1m"], then=DeadLetter("orders.dlq")),
)
@broker.publisher("receipts")
async def charge(order: Order) -> str:
    await asyncio.sleep(0.02)  # a call over the network
    return f"{order.customer} paid {order.amount}"
