"""A worker: it charges customers, tries again what fails, and sets aside what can never be charged."""

import asyncio
import logging

from kohort import DeadLetter, Record, Retry, Service

app = Service()
log = logging.getLogger(__name__)


@app.consume(
    "orders",
    group_id="billing",
    auto_offset_reset="earliest",
    on_error=[
        DeadLetter("orders.dlq", on=(ValueError,)),
        Retry(["1s", "10s", "1m"], then=DeadLetter("orders.dlq")),
    ],
)
@app.produce("receipts")
async def charge(order: Record) -> bytes:
    amount = int(order.value or b"")
    await asyncio.sleep(0.02)  # a call over the network
    log.info("charged %d", amount)
    return b"paid %d" % amount
