"""Our transactional producer on Apache Kafka: 3.9.1, and 4.3.1 with version 1 of transactions and with version 2."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from interop.kafka import ApacheKafka
from tests.integration import transaction_scenarios
from tests.integration.client_scenarios import SCENARIOS, Scenario, run
from tests.integration.ended_transformers import survive_a_frozen_one, survive_kills
from tests.integration.scenario_book import create
from tests.integration.transaction_scenarios import committed, offsets_of, take_too_long
from tests.interop.conftest import SHORT_SESSIONS

from kohort.client import GroupMetadata, Producer
from kohort.model.ids import TopicPartition

pytestmark = pytest.mark.capability("kohort", "transactions on Apache Kafka {kafka}", broker="apache")

OLDER = "older-pom.xml"
QUICK = {
    **{name: value for name, value in SHORT_SESSIONS.items() if not name.startswith("group.consumer.")},
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
KAFKAS = {
    "3.9.1": ApacheKafka(QUICK, heap="512m", pom=OLDER),
    "4.3.1, version 1": ApacheKafka(QUICK, heap="512m", formatting=("--feature", "transaction.version=1")),
    "4.3.1, version 2": ApacheKafka(QUICK, heap="512m"),
}
TRANSACTIONS = [each for each in SCENARIOS if each.__module__ == transaction_scenarios.__name__]


@pytest.fixture(scope="module", params=list(KAFKAS))
def kafka(request: pytest.FixtureRequest) -> Iterator[ApacheKafka]:
    broker = KAFKAS[request.param]
    with broker:
        yield broker


@pytest.mark.parametrize("scenario", TRANSACTIONS, ids=lambda scenario: scenario.__name__)
def test_a_promise_of_transactions_holds(scenario: Scenario, kafka: ApacheKafka) -> None:
    run(scenario, kafka.bootstrap, f"{scenario.__name__[:40]}-{uuid.uuid4().hex[:6]}")


def test_each_order_has_one_invoice_however_its_process_ends(kafka: ApacheKafka) -> None:
    async def run() -> None:
        async with asyncio.timeout(90):
            await survive_a_frozen_one(kafka.bootstrap, await survive_kills(kafka.bootstrap, 5))

    asyncio.run(run())


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(kafka: ApacheKafka) -> None:
    topic = f"slow-{uuid.uuid4().hex[:6]}"

    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, topic, 1)
        await take_too_long(bootstrap, topic)

    run(scenario, kafka.bootstrap, topic)


def test_each_transaction_is_whole_over_a_kill_of_the_broker(kafka: ApacheKafka) -> None:
    topic = f"killed-{uuid.uuid4().hex[:6]}"

    async def scenario(bootstrap: str, _: str) -> None:
        await create(bootstrap, topic, 2)
        async with Producer(bootstrap, transactional_id=topic, linger_ms=1) as producer:
            for number in range(20):
                async with producer.transaction() as transaction:
                    await producer.send(topic, b"%d" % number, partition=0)
                    await transaction.send_offsets(GroupMetadata(topic), {TopicPartition(topic, 0): number + 1})
                    if number == 10:
                        await producer.flush()
                        await asyncio.to_thread(kafka.child.kill)
                        await asyncio.to_thread(kafka.restart)
                    await producer.send(topic, b"%d" % number, partition=1)
        assert await committed(bootstrap, topic) == dict.fromkeys((b"%d" % number for number in range(20)), 2)
        assert (await offsets_of(bootstrap, topic, topic, 1))[0].offset == 20

    run(scenario, kafka.bootstrap, topic)
