"""Members that subscribe to an expression which the broker matches (KIP-848), by every library that can."""

from __future__ import annotations

import pytest
from interop.brokers import BROKERS
from interop.group import Group, keyed
from interop.ownership import check_single_owner
from interop.producers import produce
from tests.interop.lanes import Stage
from tests.interop.libraries import need
from tests.interop.topics import create_topic

pytestmark = [pytest.mark.timeout(200), pytest.mark.lane(45)]
APACHE_LOOKS_AGAIN_S = 60  # at the earliest ten seconds after the last time, and when a heartbeat comes


@pytest.mark.parametrize("broker", list(BROKERS))
@pytest.mark.parametrize("library", ["kohort", "java", "librdkafka"])
@pytest.mark.capability("{library}", "subscribes to an expression; a topic that matches is created later")
def test_members_of_an_expression_get_a_topic_that_is_created_later(library: str, stage: Stage) -> None:
    need(library)
    with Group(stage.bootstrap, f"group-{stage.name}", stage.name, 6, stage.folder) as group:
        for _ in range(2):
            group.start(library, protocol="consumer", regex=f"{stage.name[:-1]}[{stage.name[-1]}]")
        create_topic(stage.bootstrap, f"{stage.name}-more", 3)  # an expression says the whole of a name
        create_topic(stage.bootstrap, stage.name, 6)
        group.settle(APACHE_LOOKS_AGAIN_S)
        assert [len(member.owned) for member in group.members] == [3, 3]
        for topic in (f"{stage.name}-more", stage.name):
            written = produce("librdkafka", stage.bootstrap, topic, keyed(120, 17))
        group.drain(written)
        group.check(written)
        check_single_owner(group.members)
