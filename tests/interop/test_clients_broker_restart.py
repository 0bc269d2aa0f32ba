"""Our broker stopped or killed under running clients: nothing acknowledged is lost, nothing is written twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.group import Group, check_keys, keyed
from interop.kohort_broker import KohortBroker
from interop.producers import LongProducer
from tests.interop.topics import create_topic

pytestmark = pytest.mark.timeout(150)
TOPIC = "restarted"


@pytest.fixture
def own_broker() -> Iterator[KohortBroker]:
    """A broker that a test may kill."""
    pytest.importorskip("confluent_kafka")
    with KohortBroker() as broker:
        create_topic(broker.bootstrap, TOPIC, 6)
        yield broker


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("library", ["librdkafka", "kafka_python", "aiokafka", "kohort"])
@pytest.mark.capability("{library}", "the broker is gone for a while ({end})")
def test_group_goes_on_when_the_broker_is_back(
    library: str, end: str, own_broker: KohortBroker, tmp_path: Path
) -> None:
    producer = LongProducer(own_broker.bootstrap, TOPIC)
    with Group(own_broker.bootstrap, "restarted-group", TOPIC, 6, tmp_path) as group:
        for _ in range(2):
            group.start(library, session_ms="10000")
        group.settle()
        producer.send(keyed(300, 17))
        producer.flush()
        group.drain(producer.written)
        # These are on their way, or waiting in the client, while the broker is away.
        producer.send(keyed(300, 17, 300))
        if end == "kill":
            own_broker.kill()
        else:
            own_broker.stop()
        producer.send(keyed(300, 17, 600))
        own_broker.start()
        producer.flush()
        group.drain(producer.written, 60)
        group.settle()
        assert len(producer.written) == 900
        check_keys(producer.written)
        # What a member had read when the broker went, and could not commit, is read again.
        group.check(producer.written, may_repeat=[*group.members, *group.gone])
