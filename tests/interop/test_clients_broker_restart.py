"""Our broker stopped or killed under running clients: nothing acknowledged is lost, nothing is written twice."""

from __future__ import annotations

import pytest
from interop.group import Group, check_keys, keyed
from interop.kohort_broker import KohortBroker
from interop.producers import LongProducer
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

pytestmark = [pytest.mark.timeout(300), pytest.mark.lane(15)]


@pytest.mark.parametrize("broker", ["kohort"])
@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("library", ["librdkafka", "kafka_python", "aiokafka", "java", "kohort"])
@pytest.mark.capability("{library}", "the broker is gone for a while ({end})")
def test_group_goes_on_when_the_broker_is_back(library: str, end: str, stage: Stage) -> None:
    need("librdkafka", library)
    with KohortBroker() as broker:
        create_topic(broker.bootstrap, stage.name, 6)
        producer = LongProducer(broker.bootstrap, stage.name)
        with Group(broker.bootstrap, "restarted-group", stage.name, 6, stage.folder) as group:
            for _ in range(2):
                group.start(library, session_ms="10000")
            group.settle()
            producer.send(keyed(300, 17))
            producer.flush()
            group.drain(producer.written)
            # These are on their way, or waiting in the client, while the broker is away.
            producer.send(keyed(300, 17, 300))
            if end == "kill":
                broker.kill()
            else:
                broker.stop()
            producer.send(keyed(300, 17, 600))
            broker.start()
            producer.flush()
            group.drain(producer.written, 60)
            group.settle()
            assert len(producer.written) == 900
            check_keys(producer.written)
            # What a member had read when the broker went, and could not commit, is read again.
            group.check(producer.written, may_repeat=[*group.members, *group.gone])
