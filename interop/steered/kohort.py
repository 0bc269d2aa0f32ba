"""A steered member by our own Consumer."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

from interop.steered.orders import Orders
from kohort import Consumer, RangeAssignor, RoundRobinAssignor
from kohort.assign import Assignor, GroupSpec
from kohort.assign.custom import assignor
from kohort.model.assignment import Assignment
from kohort.model.errors import KafkaError


def _failing(orders: Orders) -> Assignor:
    def assign(spec: GroupSpec) -> dict[str, Assignment]:
        if orders.is_failing:
            raise RuntimeError("no rack for it")
        return RangeAssignor().assign(spec)

    return assignor(assign, name="failing")


def _protocol(orders: Orders) -> dict[str, Any]:
    if orders.is_native:
        return {"group_protocol": "consumer"}
    known: dict[str, Callable[[], Assignor]] = {
        "range": RangeAssignor,
        "roundrobin": RoundRobinAssignor,
        "failing": lambda: _failing(orders),
    }
    return {
        "assignors": [known[name]() for name in orders.assignors],
        "session_timeout_ms": orders.session_ms,
        "heartbeat_interval_ms": 500,
    }


async def _main() -> None:
    logging.basicConfig(level=logging.INFO)
    orders = Orders()
    topics = [re.compile(orders.pattern)] if orders.pattern else orders.topics
    consumer = Consumer(
        *topics,
        bootstrap_servers=orders.bootstrap,
        group_id=orders.group,
        group_instance_id=orders.instance,
        client_id=orders.client,
        max_poll_interval_ms=orders.poll_ms,
        metadata_max_age_ms=500,
        **_protocol(orders),
    )
    async with consumer:
        while not orders.is_over:
            for verb, rest in orders.new():
                if verb == "subscribe":
                    await consumer.subscribe(rest.split(","))
                elif verb == "enforce":
                    consumer.enforce_rebalance(rest)
                elif verb == "stall":
                    # Its poll timeout runs while the user has records.
                    consumer.seek_to_beginning()
                    while not await consumer.poll(100):
                        pass
                    while not orders.is_over:
                        await asyncio.sleep(0.05)
            try:
                await consumer.poll(100)
            except KafkaError as error:
                logging.warning("%s", error)
                await asyncio.sleep(0.2)
            orders.owns((each.topic, each.partition) for each in consumer.assignment())


if __name__ == "__main__":
    asyncio.run(_main())
