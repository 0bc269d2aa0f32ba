"""Our members of the consumer protocol on a real Apache Kafka: every scenario that they pass on our broker.

`KOHORT_KAFKA=HOST:PORT` names a cluster to use instead of one started here.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
from interop.kafka import ApacheKafka
from tests.integration.native_scenarios import NATIVE, membership_of, reader, together
from tests.integration.scenario_book import Scenario, create, run

from kohort.model.errors import KafkaError


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    named = os.environ.get("KOHORT_KAFKA")
    address: str = named or request.getfixturevalue("apache").bootstrap
    return address


@pytest.mark.parametrize("scenario", NATIVE, ids=lambda scenario: scenario.__name__)
def test_on_apache_kafka(scenario: Scenario, bootstrap: str) -> None:
    run(scenario, bootstrap, f"n-{scenario.__name__[:40]}-{uuid.uuid4().hex[:6]}")


@pytest.fixture(scope="module")
def without_the_protocol() -> Iterator[str]:
    """A Kafka whose metadata says group.version=0, as after an upgrade of its brokers from 3.x."""
    broker = ApacheKafka(formatting=["--feature", "group.version=0"]).start()
    yield broker.bootstrap
    broker.stop()
    broker.remove()


async def auto_is_classic(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    async with reader(bootstrap, name, name, group_protocol="auto") as consumer:
        await together(consumer, until=lambda: len(consumer.assignment()) == 2)
        assert membership_of(consumer).protocol == "classic"


async def consumer_says_what_to_do(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    async with reader(bootstrap, name, name) as consumer:
        with pytest.raises(KafkaError, match=r"protocol='classic', or 'auto', or Kafka 4\.0"):
            await together(consumer, until=lambda: False)


@pytest.mark.parametrize("scenario", [auto_is_classic, consumer_says_what_to_do], ids=lambda each: each.__name__)
def test_on_a_kafka_that_does_not_serve_it(scenario: Scenario, without_the_protocol: str) -> None:
    run(scenario, without_the_protocol, scenario.__name__)
