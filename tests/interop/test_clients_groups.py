"""Members that leave and come back, with the assignors that their libraries take by default."""

from __future__ import annotations

import pytest
from interop.brokers import BROKERS
from interop.group import check_keys, keyed, merged
from interop.producers import produce
from tests.interop.lanes import Stage
from tests.interop.libraries import need

pytestmark = [pytest.mark.timeout(300), pytest.mark.lane(20)]


@pytest.mark.parametrize("broker", list(BROKERS))
@pytest.mark.parametrize("library", ["librdkafka", "kafka_python", "aiokafka", "java", "kohort"])
@pytest.mark.capability("{library}", "a restarted member continues from what was committed")
def test_restarted_member_continues_from_what_was_committed(library: str, stage: Stage) -> None:
    need(library)
    with stage.group() as group:
        first, *_ = [group.start(library) for _ in range(3)]
        group.settle()
        written = produce("librdkafka", stage.bootstrap, group.topic, keyed(600, 17))
        group.drain(written)
        group.leave(first)
        group.settle()
        written = merged([written, produce("librdkafka", stage.bootstrap, group.topic, keyed(300, 17, 600))])
        group.drain(written)
        group.start(library)
        group.settle()
        written = merged([written, produce("librdkafka", stage.bootstrap, group.topic, keyed(300, 17, 900))])
        group.drain(written)
        for member in list(group.members):
            group.leave(member)
        # No member is left: the next one reads from the commits on.
        group.start(library)
        group.settle()
        written = merged([written, produce("librdkafka", stage.bootstrap, group.topic, keyed(60, 17, 1200))])
        group.drain(written)
        group.check(written)
        check_keys(written)
