"""A test of a consumer against a broker that is started for the test, on a real socket."""

import asyncio

import pytest

from kohort import Consumer, ConsumerSettings, Producer
from kohort.testing import EmbeddedBroker


async def total(address: str, topic: str, group: str, count: int) -> int:
    """The code under test: add up `count` numbers of a topic."""
    settings: ConsumerSettings = {"bootstrap_servers": address, "group_id": group, "auto_offset_reset": "earliest"}
    result = 0
    async with Consumer(topic, **settings, value_deserializer=int) as consumer:
        while count:
            for batch in await consumer.poll(timeout_ms=1000, max_records=count):
                result += sum(record.value or 0 for record in batch)
                count -= len(batch)
    return result


async def send(address: str, topic: str, numbers: range) -> None:
    async with Producer(address) as producer:
        for number in numbers:
            await producer.send(topic, str(number).encode())


@pytest.mark.kohort_settings(num_partitions=3)
def test_a_second_run_goes_on_where_the_first_one_stopped(kohort_broker: EmbeddedBroker) -> None:
    address = kohort_broker.bootstrap_servers
    asyncio.run(send(address, "numbers", range(10)))
    assert asyncio.run(total(address, "numbers", "adders", 10)) == 45
    asyncio.run(send(address, "numbers", range(10, 12)))
    assert asyncio.run(total(address, "numbers", "adders", 2)) == 21


def test_nothing_is_lost_when_the_broker_is_killed(kohort_broker: EmbeddedBroker) -> None:
    asyncio.run(send(kohort_broker.bootstrap_servers, "numbers", range(100)))
    kohort_broker.kill()
    kohort_broker.start()
    assert asyncio.run(total(kohort_broker.bootstrap_servers, "numbers", "adders", 100)) == 4950
