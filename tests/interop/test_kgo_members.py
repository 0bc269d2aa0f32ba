"""Members by franz-go (kgo) in groups with those of other libraries."""

from __future__ import annotations

import pytest
from interop.brokers import BROKERS
from interop.group import keyed, merged
from interop.ownership import check_single_owner
from interop.producers import produce
from tests.interop.lanes import Stage
from tests.interop.libraries import need

pytestmark = [pytest.mark.timeout(200), pytest.mark.lane(30)]


@pytest.mark.parametrize("broker", list(BROKERS))
@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
def test_kgo_shares_a_group_with_other_libraries(protocol: str, stage: Stage) -> None:
    need("kgo", "librdkafka")
    with stage.group(6) as group:
        members = [group.start(library, assignor=protocol) for library in ("kgo", "kohort", "librdkafka")]
        group.settle(60)
        group.calm(1.5)
        written = produce("librdkafka", stage.bootstrap, group.topic, keyed(150, 40))
        group.drain(written)
        group.leave(members[0])
        group.settle()
        group.kill(members[2])
        group.start("kgo", assignor=protocol)
        written = merged([written, produce("kohort", stage.bootstrap, group.topic, keyed(150, 40, 150))])
        group.settle(60)
        group.drain(written)
        group.check(written, may_repeat=[members[2]])
        check_single_owner(group.gone + group.members)
