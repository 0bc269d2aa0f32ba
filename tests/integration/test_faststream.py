"""`kohort.faststream.KohortBroker`: FastStream's pipeline with kohort's order, retries, dead letters and commits."""

from __future__ import annotations

import asyncio
import json
import runpy
import ssl
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.scenario_book import PATIENCE_MS

from kohort import Admin, Consumer, DeadLetter, Producer, Retry, TopicPartition
from kohort.testing import EmbeddedBroker

faststream = pytest.importorskip("faststream", reason="FastStream is not installed")

from faststream.exceptions import AckMessage, SetupError  # noqa: E402
from faststream.kafka import KafkaMessage, TestKafkaBroker  # noqa: E402
from faststream.security import BaseSecurity, SASLScram512  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from kohort.faststream import KohortBroker, connection_of  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "service" / "faststream_billing.py"


class Order(BaseModel):
    number: int


@pytest.fixture
def kafka() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker


async def write(kafka: EmbeddedBroker, count: int, keys: int = 7) -> None:
    async with Producer(kafka.bootstrap_servers) as producer:
        for number in range(count):
            value = json.dumps({"number": number}).encode()
            await producer.send("orders", value, key=b"k%d" % (number % keys), headers=[("trace", b"t%d" % number)])


async def committed(kafka: EmbeddedBroker) -> int:
    async with Admin(kafka.bootstrap_servers) as admin:
        return sum(each.offset for each in (await admin.group_offsets("billing")).values())


@asynccontextmanager
async def running(broker: KohortBroker) -> AsyncIterator[None]:
    async with asyncio.timeout(PATIENCE_MS / 1000):
        await broker.start()
        try:
            yield
        finally:
            await broker.stop()


class Seen(list[Any]):
    """What functions have seen; a test waits for a number of it."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def append(self, item: Any) -> None:
        super().append(item)
        self._changed.set()

    async def until(self, count: int) -> None:
        while len(self) < count:
            self._changed.clear()
            await self._changed.wait()


def test_each_record_is_handled_once_over_two_runs_in_the_order_of_its_key(kafka: EmbeddedBroker) -> None:
    async def scenario() -> None:
        await write(kafka, 300)
        seen = Seen()
        by_key: dict[bytes, list[int]] = defaultdict(list)
        running_now = most = 0
        for count in (100, 300):
            broker = KohortBroker(kafka.bootstrap_servers, graceful_timeout=20)

            @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
            @broker.publisher("charges")
            async def charge(order: Order, message: KafkaMessage) -> dict[str, int]:
                nonlocal running_now, most
                running_now += 1
                most = max(most, running_now)
                await asyncio.sleep(0)
                running_now -= 1
                by_key[message.raw_message.key].append(order.number)
                assert message.headers["trace"] == f"t{order.number}"
                seen.append(order.number)
                return {"charged": order.number}

            async with running(broker):
                await seen.until(count)
        assert Counter(seen) == Counter(range(300))
        assert most > 1
        assert all(numbers == sorted(numbers) for numbers in by_key.values())
        assert await committed(kafka) == 300
        async with Admin(kafka.bootstrap_servers) as admin:
            ends = await admin.list_offsets({TopicPartition("charges", 0): "latest"})
            assert [each.offset for each in ends.values() if each] == [300]

    asyncio.run(scenario())


def test_what_fails_is_tried_again_and_set_aside(kafka: EmbeddedBroker) -> None:
    async def scenario() -> None:
        await write(kafka, 3)
        attempts, done = Counter[int](), Seen()
        broker = KohortBroker(kafka.bootstrap_servers)
        policy = Retry(["1ms", "1ms"], then=DeadLetter("orders.dlq"))

        @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest", on_error=policy)
        async def charge(order: Order) -> None:
            attempts[order.number] += 1
            if order.number == 1:
                raise LookupError("no such customer")
            if order.number == 2:
                raise AckMessage
            done.append(order.number)

        async with Admin(kafka.bootstrap_servers) as admin:
            await admin.create_topic("orders.dlq", partitions=1)
        letters = Consumer("orders.dlq", bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
        async with running(broker), letters:
            letter = await anext(letters)
            await done.until(1)
        assert attempts == {0: 1, 1: 3, 2: 1}
        assert letter.value == b'{"number": 1}'
        assert await committed(kafka) == 3

    asyncio.run(scenario())


def test_a_failure_that_stops_ends_the_application_and_the_record_comes_again(kafka: EmbeddedBroker) -> None:
    async def scenario() -> None:
        await write(kafka, 1)
        broker = KohortBroker(kafka.bootstrap_servers)
        app = faststream.FastStream(broker)

        @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
        async def charge(order: Order) -> None:
            raise LookupError(f"no such customer: {order.number}")

        with pytest.raises(LookupError, match="no such customer: 0"):
            await app.run()
        assert await committed(kafka) == 0

    asyncio.run(scenario())


def test_a_subscriber_of_lists_gets_what_is_there(kafka: EmbeddedBroker) -> None:
    async def scenario() -> None:
        await write(kafka, 20)
        broker = KohortBroker(kafka.bootstrap_servers)
        lists = Seen()

        @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest", batch=True, max_records=8)
        async def charge(numbers: list[Order]) -> None:
            for each in numbers:
                lists.append((len(numbers), each.number))

        async with running(broker):
            await lists.until(20)
        assert sorted(number for _, number in lists) == list(range(20))
        assert 1 < max(length for length, _ in lists) <= 8

    asyncio.run(scenario())


def test_faststreams_own_test_broker_runs_the_functions_in_memory() -> None:
    async def scenario() -> None:
        broker = KohortBroker("127.0.0.1:1")
        seen = Seen()

        @broker.subscriber("orders", group_id="billing", concurrency=3)
        async def charge(order: Order) -> None:
            seen.append(order.number)

        async with TestKafkaBroker(broker) as memory:
            await memory.publish({"number": 7}, "orders")
        assert seen == [7]

    asyncio.run(scenario())


def test_the_program_of_the_guide_runs_in_memory() -> None:
    async def scenario() -> None:
        program = runpy.run_path(str(EXAMPLE))
        broker, receipts = program["broker"], Seen()

        @broker.subscriber("receipts", group_id="readers")
        async def read(receipt: str) -> None:
            receipts.append(receipt)

        async with TestKafkaBroker(broker) as memory:
            await memory.publish({"customer": "ann", "amount": 40}, "orders")
        assert receipts == ["ann paid 40"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_workers": 4}, "KohortBroker has no max_workers: concurrency= is how many functions run at once"),
        ({"ack_policy": None}, "KohortBroker has no ack_policy: a record is finished when its function returns"),
        ({"listener": None}, "KohortBroker has no listener: "),
        ({"concurrency": 0}, "concurrency=0"),
        ({"session_timeout_ms": "9"}, "session_timeout_ms"),
        ({"group_id": None}, "KohortBroker commits what has finished: give subscriber"),
    ],
)
def test_what_means_nothing_here_is_refused(options: dict[str, Any], sentence: str) -> None:
    broker = KohortBroker("127.0.0.1:1")
    with pytest.raises((SetupError, TypeError, ValueError), match=sentence.replace("(", r"\(")):
        broker.subscriber("orders", **{"group_id": "g", **options})


def test_the_security_of_the_broker_is_that_of_its_consumers() -> None:
    context = ssl.create_default_context()
    broker = KohortBroker("h:1", security=SASLScram512("ann", "secret", ssl_context=context, use_ssl=True))
    settings = connection_of(broker.config.broker_config.builder.keywords)
    assert (settings["bootstrap_servers"], settings["tls"]) == (["h:1"], context)
    sasl = settings["sasl"]
    assert (sasl.mechanism, sasl.username, sasl.password) == ("SCRAM-SHA-512", "ann", "secret")
    plain = KohortBroker("h:1", security=BaseSecurity(use_ssl=False))
    assert connection_of(plain.config.broker_config.builder.keywords) == {"bootstrap_servers": ["h:1"]}
