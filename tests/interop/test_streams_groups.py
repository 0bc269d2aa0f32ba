"""Kafka Streams as members of streams groups (KIP-1071), on our broker and on Apache Kafka's."""

from __future__ import annotations

import pytest
from interop.streams import STREAMS_PROTOCOL, application, running
from tests.interop.lanes import Stage
from tests.interop.test_streams import PARTITIONS, Input, check_own_topics, on_both

pytestmark = [pytest.mark.timeout(400)]
in_both_versions = pytest.mark.parametrize("version", ["", "4.4.0"], ids=["4.3.1", "4.4.0"])


@pytest.mark.lane(90)
@on_both
@in_both_versions
@pytest.mark.capability("Kafka Streams", "streams groups: scaled 1-3, an instance is killed, one closes")
def test_counts_are_exact_in_a_streams_group_that_is_scaled(stage: Stage, version: str) -> None:
    given = Input(stage)
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, STREAMS_PROTOCOL) as streams:
        given.more()
        instances = [streams.start(0, version=version)]
        given.await_counted(streams)
        check_own_topics(stage, streams)
        instances += [streams.start(number, version=version) for number in (1, 2)]
        given.more()
        for each in instances:
            running(each)
        given.await_counted(streams)
        given.check_counted_once(streams)
        instances[1].crash()
        given.more()
        given.await_counted(streams)
        instances[2].stop()
        given.more()
        given.await_counted(streams)
    last = dict(streams.read_counts())
    assert all(count == given.each for count in last.values())
