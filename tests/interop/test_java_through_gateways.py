"""Java members of every protocol through gateways: what holds of them on a broker holds of them there."""

from __future__ import annotations

import pytest
from tests.interop.lanes import Stage
from tests.interop.test_group_matrix import join_leave_and_be_killed

pytestmark = [pytest.mark.timeout(300), pytest.mark.lane(26)]
DYNAMIC = {
    "listener_of_three": ("range", "cooperative-sticky", "consumer"),
    "rewrite_of_three": ("range", "sticky", "cooperative-sticky", "consumer"),
    "coordinators_of_newest": ("cooperative-sticky", "consumer"),
    "rewrite_of_older": ("range", "cooperative-sticky"),
    "rewrite_of_newest": ("consumer",),
}
STATIC = {"listener_of_three": ("cooperative-sticky",), "rewrite_of_three": ("range", "cooperative-sticky", "consumer")}
CELLS = [
    (kind, protocol, membership)
    for membership, kinds in (("dynamic", DYNAMIC), ("static", STATIC))
    for kind, protocols in kinds.items()
    for protocol in protocols
]


@pytest.mark.parametrize(("broker", "protocol", "membership"), CELLS)
@pytest.mark.capability("java", "matrix: {protocol}, {membership}")
def test_java_members_through_a_gateway(protocol: str, membership: str, stage: Stage) -> None:
    join_leave_and_be_killed("java", protocol, membership, stage)
